"""Lengths of time as people type them on the command line: ``90s``, ``15m``, ``2h``, ``7d``.

Called by commands. Pure.
"""

import re

from schemas.errors import Misconfigured

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_FORM = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd])\Z", re.ASCII)


def seconds_of(text: str) -> float:
    """Return ``text`` in seconds; raises ``Misconfigured`` for anything but a positive number with s, m, h or d."""
    found = _FORM.match(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds <= 0:
        raise Misconfigured(f"{text!r} is no length of time: say 90s, 15m, 2h or 7d")
    return seconds
