"""The stage ``admit``: gates 1 and 2 and the classes, from ``memory.extracted`` to ``memory.admitted``.

Opens the extraction with the key that sealed it, lets ``streams.gates.admission`` judge and classify every candidate, and
seals the result again. Run by ``streams.delivery``. Never calls a model and never writes to a store.
"""

from collections.abc import Callable

from msgspec.structs import replace

from schemas.candidates import Extraction, MemoryAdmitted, MemoryExtracted
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.ids import check_id
from schemas.inputs import Origin
from schemas.settings import Settings
from schemas.topics import ADMITTED, EXTRACTED, Topic
from streams.extract import ERASED
from streams.inputs import Keys
from streams.sealed_records import open_record, seal_record
from streams.stage import Refusal, StageResult, stage_output, without_body

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

    async def handle(self, message: bytes, position: Origin) -> StageResult:
        """Return the ``MemoryAdmitted`` of one ``MemoryExtracted``; raises ``Rejected`` (``erased``, …) or ``Retryable``."""
        event = read_extracted(self._codec, message)
        admitted = without_body(event, MemoryAdmitted, event.status)
        if event.body is not None:
            key = await self._keys.key(event.tenant_id, event.user_id, event.body.key_id)
            extraction = self._judge(open_record(self._codec, event.body, key, Extraction), event)
            admitted = replace(admitted, status=extraction.status, body=seal_record(self._codec, extraction, key))
        return StageResult((stage_output(ADMITTED, self._codec, self._settings, admitted),), admitted.status)

    async def refuse(self, message: bytes, position: Origin, error: Rejected) -> Refusal:
        """Return the empty record, if tenant and user can be read."""
        try:
            event = read_extracted(self._codec, message)
        except Rejected:
            return Refusal(StageResult(status="rejected"))
        status = ERASED if error.code == ERASED else "rejected"
        empty = without_body(event, MemoryAdmitted, status)
        return Refusal(
            StageResult((stage_output(ADMITTED, self._codec, self._settings, empty),), status),
            dead=status != ERASED,
            tenant_id=event.tenant_id,
            user_id=event.user_id,
            event_id=event.event_id,
        )


def read_extracted(codec: Codec, message: bytes) -> MemoryExtracted:
    """Return the event with valid ids; raises ``Rejected``."""
    event = codec.decode(message, MemoryExtracted)
    for name in ("tenant_id", "user_id", "event_id", "session_id"):
        check_id(name, getattr(event, name))
    return event
