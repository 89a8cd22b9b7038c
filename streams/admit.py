"""The stage ``admit``: gates 1 and 2 and the classes, from ``memory.extracted`` to ``memory.admitted``.

Opens the extraction with the key that sealed it, lets ``streams.gates.admission`` judge and classify every candidate, and
seals the result again. Run by ``streams.delivery``. Never calls a model and never writes to a store.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from schemas.candidates import Extraction, MemoryAdmitted, MemoryExtracted
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.settings import Settings
from schemas.topics import ADMITTED, EXTRACTED, Topic
from streams.inputs import Keys
from streams.sealed_records import seal_record
from streams.stage import Input, Refusal, StageResult, stage_output, unless_rejected, without_body
from streams.stage_events import Opened, open_events, refusal_of

Judge = Callable[[Extraction, MemoryExtracted], Extraction]


class Admit:
    """``judge`` sets category, slot, outcome and refusals of every candidate."""

    name = "admit"
    source: Topic = EXTRACTED

    def __init__(self, judge: Judge, codec: Codec, keys: Keys, settings: Settings) -> None:
        self._judge = judge
        self._codec = codec
        self._keys = keys
        self._settings = settings

    async def handle(self, inputs: Sequence[Input]) -> Sequence[StageResult | Rejected]:
        """Return the ``MemoryAdmitted`` of each ``MemoryExtracted``, or why it is refused (``erased``, …)."""
        found = await open_events(self._codec, self._keys, inputs, MemoryExtracted)
        return [unless_rejected(self._admitted, one) for one in found]

    def _admitted(self, opened: Opened[MemoryExtracted]) -> StageResult:
        event = opened.event
        if opened.extraction is None or opened.key is None:
            return self._empty(event, event.status)
        extraction = self._judge(opened.extraction, event)
        body = seal_record(self._codec, extraction, opened.key)
        admitted = replace(without_body(event, MemoryAdmitted, extraction.status), body=body)
        return StageResult((stage_output(ADMITTED, self._codec, self._settings, admitted),), admitted.status)

    def _empty(self, event: MemoryExtracted, status: str) -> StageResult:
        empty = without_body(event, MemoryAdmitted, status)
        return StageResult((stage_output(ADMITTED, self._codec, self._settings, empty),), status)

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        """Return the empty record, if tenant and user can be read."""
        return refusal_of(self._codec, one, error, MemoryExtracted, self._empty)
