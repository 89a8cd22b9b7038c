"""Logs of worker processes: one JSON object a line on standard error, from our code and from the libraries alike.

Called by the worker command before anything else. Never logs content or secrets: our own lines carry names, counts and
positions; of the libraries only warnings are taken, cut short.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_LINE_LIMIT_CHARACTERS = 600
_QUIET = {
    # It reports every reconnection attempt as an error; the heartbeat says "waiting" for us.
    "aiokafka": logging.CRITICAL,
    "faust": logging.ERROR,
    "mode": logging.ERROR,
    "asyncio": logging.ERROR,
}


def set_up_logs(role: str) -> None:
    """Send every log line of this process to standard error as JSON with the role in it."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _with_role(role),
        _cut,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(ensure_ascii=False)],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_trace,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
        )
    )
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)


def _with_role(role: str) -> Any:
    def add(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        line["role"] = role
        return line

    return add


def _cut(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: value[:_LINE_LIMIT_CHARACTERS] if isinstance(value, str) else value for name, value in line.items()}


def _without_trace(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # A library's trace can quote what it was working on.
    line.pop("exc_info", None)
    line.pop("stack_info", None)
    return line
