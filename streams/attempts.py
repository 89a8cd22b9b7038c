"""How often an input was begun and not finished: bounds what a poison input can cost.

One small file per role on this machine: 32 bytes for each partition, rewritten in place, about a microsecond a write. It
survives the death of the process, which is what it is for; losing it only makes the count start again. Called by
``streams.delivery``. Waiting for a dependency is not an attempt: ``forget`` takes it back.
"""

import os
import struct
from pathlib import Path
from types import TracebackType

# First offset in flight + 1 (so that an empty file means none), attempts at it, last offset in flight + 1, and how often
# something before it was begun since and not finished.
_SLOT = struct.Struct("<qqqq")
# So often a start before what was in flight is taken for a redelivery; then the group was moved back, and it counts itself.
_EARLIER_STARTS = 3


class Attempts:
    """Counts the attempts of the inputs in flight per partition, in ``folder/attempts-<role>.bin``.

    Which one of several inputs ended the process is not known, so after that each of them goes alone.
    """

    def __init__(self, folder: Path, role: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / f"attempts-{role}.bin", os.O_RDWR | os.O_CREAT, 0o600)

    def is_suspect(self, partition: int, offset: int) -> bool:
        """Return whether an input must go alone because it was in flight when a process ended."""
        first, attempts, alone_to, _ = self._read(partition)
        return first <= offset < alone_to and (attempts > 0 or first < offset)

    def begin(self, partition: int, first: int, last: int) -> int:
        """Note that work on the inputs ``first`` to ``last`` begins; return which attempt at the first this is, from 1."""
        known, before, alone_to, earlier = self._read(partition)
        if before > 0 and last < known and earlier < _EARLIER_STARTS:
            # Most likely done already, and here again because that was not committed: the count of what follows must not suffer.
            self._write(partition, known, before, alone_to, earlier + 1)
            return 1
        attempts = before + 1 if known == first else 1
        self._write(partition, first, attempts, max(last + 1, alone_to))
        return attempts

    def finish(self, partition: int, last: int) -> None:
        """Note that everything to ``last`` is done, so that a redelivery after it does not count."""
        known, before, alone_to, _ = self._read(partition)
        if before > 0 and last < known:
            self._write(partition, known, before, alone_to)
        else:
            self._write(partition, last, 0, alone_to if alone_to > last + 1 else 0)

    def forget(self, partition: int, first: int, last: int) -> None:
        """Take back the attempt that ``begin`` counted: its end was not the inputs' fault."""
        known, before, alone_to, earlier = self._read(partition)
        if known == first:
            kept = alone_to if alone_to > last + 1 or before > 1 else 0
            self._write(partition, first, max(0, before - 1), kept)
        elif last < known and earlier > 0:
            self._write(partition, known, before, alone_to, earlier - 1)

    def _read(self, partition: int) -> tuple[int, int, int, int]:
        known = os.pread(self._file, _SLOT.size, partition * _SLOT.size)
        if len(known) != _SLOT.size:
            return -1, 0, 0, 0
        following, attempts, alone_to, earlier = _SLOT.unpack(known)
        return following - 1, attempts, alone_to, earlier

    def _write(self, partition: int, first: int, attempts: int, alone_to: int, earlier: int = 0) -> None:
        os.pwrite(self._file, _SLOT.pack(first + 1, attempts, alone_to, earlier), partition * _SLOT.size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> "Attempts":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
