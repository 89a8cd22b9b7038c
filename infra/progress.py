"""Shows what a stack is doing: one moving line per server on a terminal, plain lines elsewhere.

Owned by ``infra``; called by the stack commands. It shows what it is told and starts nothing.
"""

import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import TaskID as Line


class StackProgress:
    """A ``progress(name, text)`` for ``LocalStack``, and the context in which lines are shown."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: dict[str, Line] = {}
        self._told: dict[str, str] = {}
        self._lock = threading.Lock()
        self._shown = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.fields[name]:<9}"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
        )

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._console.is_terminal:
            self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last state on the screen."""
        if self._console.is_terminal:
            self._shown.stop()

    def __call__(self, name: str, text: str) -> None:
        """Show what happens to ``name``; ``ready`` ends its line."""
        with self._lock:
            if self._told.get(name) == text:
                return
            self._told[name] = text
            if not self._console.is_terminal:
                self._console.print(f"{name}: {text}", markup=False, highlight=False)
                return
            if name not in self._lines:
                self._lines[name] = self._shown.add_task(text, total=1, name=name)
            done = 1 if text == "ready" else 0
            self._shown.update(self._lines[name], description=text, completed=done)
