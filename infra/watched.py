"""The looks of a watchdog as metrics: lag per partition, what stands still, and when it was last looked.

Called by the runners of stages and projectors. Keeps the last look of each group; scrapes read it.
"""

import time
from collections.abc import Callable, Mapping

from infra.metrics import Metrics
from streams.watchdog import Watched


class WatchedGroups:
    """The last look at each consumer group of this process."""

    def __init__(self, metrics: Metrics) -> None:
        self._looks: dict[tuple[str, str], tuple[Watched, float]] = {}
        by_partition = ("group", "topic", "partition")
        metrics.show("engram_lag_records", "Records not yet read, by partition.", by_partition, self._lag)
        metrics.show("engram_partition_stalled", "1 for a partition without progress.", by_partition, self._stalled)
        metrics.show("engram_watchdog_timestamp_seconds", "When it last looked.", ("group", "topic"), self._times)

    def teller(self, group: str, topic: str) -> Callable[[Watched], None]:
        """Return where the watchdog of ``group`` tells what it found."""

        def tell(found: Watched) -> None:
            self._looks[group, topic] = (found, time.time())

        return tell

    def _lag(self) -> Mapping[tuple[str, ...], float]:
        return {
            (*name, str(number)): max(0, end - look.committed.get(number, 0))
            for name, (look, _) in list(self._looks.items())
            for number, end in look.ends.items()
        }

    def _stalled(self) -> Mapping[tuple[str, ...], float]:
        return {
            (*name, str(number)): float(number in look.stalled)
            for name, (look, _) in list(self._looks.items())
            for number in look.ends
        }

    def _times(self) -> Mapping[tuple[str, ...], float]:
        return {name: at for name, (_, at) in list(self._looks.items())}
