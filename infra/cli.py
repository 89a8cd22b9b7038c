"""The command line ``engram``: every command of every role hangs here.

An entry point: commands read the environment through ``schemas.settings`` and build what they need in ``infra``. Errors by
consequence become one sentence and an exit code; nothing below prints a stack trace for a person's mistake.
"""

import importlib
import os
import sys
from typing import Final

import typer
from rich.console import Console

from infra.state import StateDirectory
from schemas.errors import EngramError, Misconfigured, Rejected, Retryable
from schemas.settings import load_settings

EXIT_FAILED: Final = 1
EXIT_REJECTED: Final = 65
EXIT_UNAVAILABLE: Final = 69
EXIT_BROKEN: Final = 70
EXIT_MISCONFIGURED: Final = 78

COMMANDS: Final = {
    "prepare": "infra.commands.stack",
    "up": "infra.commands.stack",
    "down": "infra.commands.stack",
    "status": "infra.commands.stack",
    "demo": "infra.commands.demo",
    "migrate": "infra.commands.setup",
    "worker": "infra.commands.worker",
    "turn": "infra.commands.gateway",
    "import": "infra.commands.gateway",
    "recall": "infra.commands.recall",
    "memories": "infra.commands.memories",
    "pending": "infra.commands.memories",
    "quarantine": "infra.commands.memories",
    "outbox": "infra.commands.outbox",
    "dead": "infra.commands.dead",
    "lag": "infra.commands.lag",
    "conflicts": "infra.commands.conflicts",
    "rebuild": "infra.commands.rebuild",
    "rewind": "infra.commands.rewind",
    "reconcile": "infra.commands.reconcile",
    "bench": "infra.commands.bench",
}


def build(first_word: str = "") -> typer.Typer:
    """Return the command line; when ``first_word`` is a command, only that one's module is loaded (start-up time)."""
    app = typer.Typer(
        name="engram",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Long-term memory for AI agents. Exit codes: 0 done, 1 the answer is no, 2 wrong use, 65 refused input, "
        "69 a server does not answer, 70 stopped so that nothing is lost, 78 wrong setting.",
    )
    app.callback()(_root)  # With a callback, one command alone still keeps its name.
    for name in [first_word] if first_word in COMMANDS else COMMANDS:
        _mount(app, name)
    return app


def _root() -> None:
    pass


def _mount(app: typer.Typer, name: str) -> None:
    module = importlib.import_module(COMMANDS[name])
    command = getattr(module, "import_file" if name == "import" else name)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


def exit_code(error: EngramError) -> int:
    """Return the documented exit code for an error."""
    match error:
        case Misconfigured():
            return EXIT_MISCONFIGURED
        case Rejected():
            return EXIT_REJECTED
        case Retryable():
            return EXIT_UNAVAILABLE
        case _:
            return EXIT_BROKEN


def use_running_stack() -> None:
    """Let commands reach the local stack of this state directory when one runs and the environment names no servers."""
    if "ENGRAM_KAFKA_BOOTSTRAP_SERVERS" in os.environ:
        return
    state = StateDirectory(load_settings().state_dir)
    if state.owner() is not None:
        for name, value in state.environment().items():
            os.environ.setdefault(name, value)


def main() -> None:
    """Run the command line."""
    try:
        use_running_stack()
        build(sys.argv[1] if len(sys.argv) > 1 else "")()
    except EngramError as error:
        Console(stderr=True).print(f"engram: {error}", style="red", markup=False, highlight=False)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
