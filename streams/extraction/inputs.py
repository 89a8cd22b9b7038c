"""What an extractor is given: one input, already opened, with the texts that must not be learned again.

Owned by extraction; built by the ``extract`` agent from an envelope and its body. Plain values, no behaviour.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInput:
    """A turn: both messages, their ids, when it was said, and what the prompt already contained.

    ``stated_at_ms`` is UTC milliseconds, ``timezone_offset`` the user's zone (``+08:00``). ``recalled_contents`` are the
    memories that were put into the prompt; text that repeats one of them is not learned again. ``skip_rules`` are gate
    rules an operator overrode when releasing the turn from quarantine.
    """

    event_id: str
    user_message: str
    assistant_message: str | None = None
    user_message_id: str = "user"
    assistant_message_id: str = "assistant"
    stated_at_ms: int = 0
    timezone_offset: str | None = None
    locale: str = ""
    previous_user_message: str | None = None
    recalled_contents: tuple[str, ...] = ()
    skip_rules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """Something that happened inside a turn, as in ``StepRecorded``; ``arguments`` and ``detail`` are JSON texts."""

    event_id: str
    step: str
    name: str = ""
    outcome: str = ""
    error: str = ""
    arguments: str = "{}"
    detail: str = "{}"
    remedy: str = ""
    stated_at_ms: int = 0
    timezone_offset: str | None = None
    locale: str = ""
    skip_rules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordInput:
    """A fact from a system of record, as in ``RecordReceived``; attribute values are JSON texts."""

    event_id: str
    source: str
    entity_type: str
    entity_id: str
    attributes: dict[str, str] = field(default_factory=dict)
    status: str = ""
    record_id: str = ""
    stated_at_ms: int = 0
    timezone_offset: str | None = None
    locale: str = ""
    skip_rules: frozenset[str] = frozenset()


ExtractionInput = TurnInput | StepInput | RecordInput
