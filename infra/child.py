"""Becomes one supervised process: ties its life to the supervisor's, changes the user if asked, and executes it.

Started by ``infra.processes`` as ``python -I -S child.py SUPERVISOR_PID USER COMMAND...`` (USER is ``-`` for no
change). It uses the standard library only, starts in some 20 ms and leaves nothing of itself behind.
"""

import ctypes
import os
import pwd
import signal
import sys

PR_SET_PDEATHSIG = 1
NOT_STARTED = 127


def main() -> None:
    """Tie, change user, execute; ends with status 127 when the supervisor is gone or the command cannot start."""
    supervisor, user, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if user != "-":
        entry = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
        os.environ["HOME"] = entry.pw_dir
    if sys.platform == "linux":
        # After the change of user, which would clear it. It outlives the exec below.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        sys.exit(NOT_STARTED)
    try:
        os.execvp(command[0], command)  # noqa: S606  # becoming the command is what this file is for
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main()
