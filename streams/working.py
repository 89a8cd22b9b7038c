"""The stage ``working``: the state machine of every session, fed by ``chat.turns`` alone.

Reads the inputs that came together as ``extract`` does, masks them, finds their signals, and writes one transaction for all of
them (``streams.working_rows``).
What it cannot read it skips and counts: ``extract`` puts the same record into the dead letters. Run by
``streams.delivery``. It publishes nothing itself: the relay does.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.inputs import InputBody, Origin, RecordReceived, StepRecorded, TurnRecorded
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS, Topic
from streams.inputs import Keys, OpenedInput, open_inputs
from streams.sealed_records import seal_record
from streams.stage import POISON, Input, Refusal, StageResult
from streams.working_machine import Session, advance
from streams.working_rows import Entry, HistoryRow, Step, WorkingRows
from streams.working_signals import signal_of

REFUSED_TEXT = "[REFUSED]"
_HASH = re.compile(r"[0-9a-fA-F]{64}\Z")


class Working:
    """``mask`` takes identifiers out of a text; ``is_refused`` says whether gate 0 refuses one."""

    name = "working"
    source: Topic = CHAT_TURNS

    def __init__(
        self,
        mask: Callable[[str], str],
        is_refused: Callable[[str], bool],
        rows: WorkingRows,
        codec: Codec,
        keys: Keys,
        *,
        settings: Settings,
        now_ms: Callable[[], int],
    ) -> None:
        self._mask = mask
        self._is_refused = is_refused
        self._rows = rows
        self._codec = codec
        self._keys = keys
        self._settings = settings
        self._hash_key = settings.hash_key_bytes()
        self._now_ms = now_ms

    async def handle(self, inputs: Sequence[Input]) -> list[StageResult | Rejected]:
        """Write what each input does to its session; raises ``Retryable``, ``Broken`` or ``Misconfigured``."""
        opened = await open_inputs(self._codec, self._keys, self._settings, inputs, now_ms=self._now_ms())
        # Everything that takes long is done before the transaction begins.
        entries = [
            one if isinstance(one, Rejected) else self._entry(one, given.position)
            for given, one in zip(inputs, opened, strict=True)
        ]
        statuses = iter(await self._rows.write([entry for entry in entries if isinstance(entry, Entry)]))
        outcomes = [entry if isinstance(entry, Rejected) else next(statuses) for entry in entries]
        return [one if isinstance(one, Rejected) else StageResult(status=one) for one in outcomes]

    def _entry(self, opened: OpenedInput, position: Origin) -> Entry:
        seen = self._masked(opened.body)
        signal = signal_of(
            opened.body,
            user_text=seen.user_text,
            answer_text=seen.answer_text or "",
            refused=seen.refused,
            parts=seen.parts,
        )

        def step(session: Session) -> Step:
            after, event, payload = advance(
                session,
                opened.envelope,
                signal,
                masked_input=seen.text,
                occurred_at_ms=opened.stated_at_ms,
                origin=position,
                hash_key=self._hash_key,
            )
            sealed = replace(event, body=seal_record(self._codec, payload, opened.key))
            return Step(after, sealed, self._codec.encode(sealed))

        return Entry(opened.envelope, position, _history(opened, seen), step)

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        """Skip the record; only what is poison to this stage alone is kept in the dead letters by this stage."""
        return Refusal(StageResult(status="skipped"), dead=error.code == POISON)

    def _masked(self, body: InputBody) -> "_Seen":
        match body:
            case TurnRecorded():
                user_text, refused = self._masked_text(body.user_message)
                answer = None if body.assistant_message is None else self._masked_text(body.assistant_message)[0]
                return _Seen(user_text, answer, refused, user_text or answer or "")
            case StepRecorded():
                return self._shown(body, ("step", "outcome", "name", "error", "arguments", "detail"))
            case RecordReceived():
                return self._shown(body, ("source", "entity_type", "status"))
            case _:
                said = {"size_bytes": str(body.size_bytes), "sha256": body.sha256 if _HASH.match(body.sha256) else ""}
                return self._shown(body, ("media_type",), said)

    def _shown(
        self, body: InputBody, names: tuple[str, ...], said: Mapping[str, str] = MappingProxyType({})
    ) -> "_Seen":
        """Return these parts of ``body`` masked, beside ``said``, which holds no text of anybody."""
        parts = {name: self._masked_text(getattr(body, name)) for name in names}
        shown = {**{name: text for name, (text, _) in parts.items()}, **said}
        refused = any(part_refused for _, part_refused in parts.values())
        return _Seen("", None, refused, _json(shown), _json(shown), shown)

    def _masked_text(self, text: str) -> tuple[str, bool]:
        if not text:
            return text, False
        if self._is_refused(text):
            return REFUSED_TEXT, True
        return self._mask(text), False


class _Seen(msgspec.Struct, frozen=True):
    """An input as it may be shown: both sides masked, whether gate 0 refused the user's, and one text for the event.

    ``parts`` has the masked texts of a body that is no turn, by name.
    """

    user_text: str
    answer_text: str | None
    refused: bool
    text: str
    detail: str = "{}"
    parts: dict[str, str] = {}


def _history(opened: OpenedInput, seen: _Seen) -> HistoryRow:
    return HistoryRow(
        user_message=seen.user_text,
        assistant_message=seen.answer_text,
        stated_at_ms=opened.stated_at_ms,
        detail=seen.detail,
    )


def _json(said: dict[str, str]) -> str:
    return msgspec.json.encode(said).decode()
