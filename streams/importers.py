"""Importers: real conversation files become turns, in order, with ids that make a second import change nothing.

Pure readers over a file that was opened by the caller; called by the import command, tests and measurements. Each format is
a generator; a file is read to its end before the first turn is sent, so a broken one is refused whole, with one sentence
that says where.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas.errors import Rejected
from schemas.ids import ID_PATTERN, derived_id, user_id_of_name
from schemas.inputs import TurnRecorded
from streams.text.times import zone_of

MINUTE_MS = 60_000
_MORNING_HOUR = 9
_USER_ROLES = ("user", "human", "usr")
_ASSISTANT_ROLES = ("assistant", "gpt", "bot", "chatgpt", "model", "sys")
_SILENT_ROLES = ("system", "developer", "tool", "function", "tool_response", "function_call")


@dataclass(frozen=True, slots=True)
class ImportedTurn:
    """A turn from a file: the person's name as the file has it, a valid session id, and when it was said (if the file says so)."""

    user_name: str
    session: str
    index: int
    user_message: str
    assistant_message: str | None
    at_ms: int | None = None

    @property
    def user_id(self) -> str:
        """Return the person's ``user_id``."""
        return user_id_of_name(self.user_name)

    @property
    def event_id(self) -> str:
        """Return the id that this turn always gets: from what it says and where it stands, not from the file's name."""
        text = f"{self.user_message}\x1e{self.assistant_message or ''}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return derived_id("import", self.user_name, self.session, str(self.index), digest)

    @property
    def body(self) -> TurnRecorded:
        """Return the turn as a record."""
        return TurnRecorded(user_message=self.user_message, assistant_message=self.assistant_message)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """``user_name`` replaces the name where the file has none; ``timezone_offset`` is the zone of dates without one."""

    user_name: str | None = None
    timezone_offset: str | None = None


Message = tuple[str, str]
Reader = Callable[[bytes, ImportOptions], Iterator[ImportedTurn]]


def read_turns(data: bytes, file_format: str, options: ImportOptions) -> Iterator[ImportedTurn]:
    """Yield the turns of a file's bytes; raises ``Rejected`` (``bad_file``) with the place of the first mistake."""
    reader = FORMATS.get(file_format)
    if reader is None:
        raise Rejected(f"there is no format {file_format}: use one of {', '.join(FORMATS)}", code="bad_file")
    yield from reader(data, options)


def read_memorybank(data: bytes, options: ImportOptions) -> Iterator[ImportedTurn]:
    """MemoryBank: ``{name: {history: {date: [{query, response}]}}}``; one session a day, one minute between turns."""
    for name, person in _mapping(_json(data), "the file").items():
        history = _mapping(_field(person, "history", name), f"the history of {name}")
        for date, talks in history.items():
            start_ms = _date_ms(date, "%Y-%m-%d", options, f"{name}, {date}") + _MORNING_HOUR * 60 * MINUTE_MS
            for index, talk in enumerate(_list(talks, f"{name}, {date}")):
                place = f"{name}, {date}, turn {index + 1}"
                yield ImportedTurn(
                    name,
                    date,
                    index,
                    _text(talk, "query", place),
                    _text(talk, "response", place),
                    start_ms + index * MINUTE_MS,
                )


def read_openai(data: bytes, options: ImportOptions) -> Iterator[ImportedTurn]:
    """OpenAI-style JSONL: ``{"messages": [{role, content}], "user"?, "id"?}`` a line, or one message a line."""
    single: list[Message] = []
    for number, line in _lines(data):
        place = f"line {number}"
        if "messages" not in line:
            single += _messages([line], "role", "content", place)
            continue
        messages = _messages(_list(line["messages"], f"the messages of {place}"), "role", "content", place)
        name = _name(options.user_name or line.get("user"), place)
        session = _session(line.get("session") or line.get("id"), f"conversation-{number}")
        yield from _turns(name, session, messages)
    if single:
        yield from _turns(_name(options.user_name, "the file"), "conversation-1", single)


def read_sharegpt(data: bytes, options: ImportOptions) -> Iterator[ImportedTurn]:
    """ShareGPT: a JSON list (or JSONL) of ``{id, conversations: [{from, value}]}``."""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        entries: Iterator[tuple[int, Any]] = enumerate(_list(_json(data), "the file"), start=1)
    else:
        entries = _lines(data)
    for number, entry in entries:
        place = f"conversation {number}"
        messages = _messages(_list(_field(entry, "conversations", place), place), "from", "value", place)
        session = _session(entry.get("id"), f"conversation-{number}")
        yield from _turns(_name(options.user_name or entry.get("user") or session, place), session, messages)


def read_crosswoz(data: bytes, options: ImportOptions) -> Iterator[ImportedTurn]:
    """CrossWOZ: ``{id: {messages: [{role: usr or sys, content}]}}``; every dialogue is a person of its own."""
    for number, dialogue in _mapping(_json(data), "the file").items():
        place = f"dialogue {number}"
        messages = _messages(_list(_field(dialogue, "messages", place), place), "role", "content", place)
        yield from _turns(options.user_name or f"crosswoz-{number}", _session(number, "dialogue"), messages)


def read_locomo(data: bytes, options: ImportOptions) -> Iterator[ImportedTurn]:
    """LoCoMo: samples with ``conversation: {speaker_a, speaker_b, session_<n>, session_<n>_date_time}``; a is the user."""
    for number, sample in enumerate(_list(_json(data), "the file"), start=1):
        place = f"sample {number}"
        conversation = _mapping(_field(sample, "conversation", place), f"the conversation of {place}")
        speaker = _text(conversation, "speaker_a", place)
        sample_id = _session(sample.get("sample_id"), f"sample-{number}")
        name = options.user_name or f"{sample_id}-{speaker}"
        count = 1
        while f"session_{count}" in conversation:
            key = f"session_{count}"
            spoken = [
                ("user" if _text(line, "speaker", place) == speaker else "assistant", _text(line, "text", place))
                for line in _list(conversation[key], f"{place}, {key}")
            ]
            when = conversation.get(f"{key}_date_time")
            start_ms = _date_ms(when, "%I:%M %p on %d %B, %Y", options, f"{place}, {key}") if when else None
            yield from _turns(name, f"{sample_id}-{key}", spoken, start_ms)
            count += 1


FORMATS: dict[str, Reader] = {
    "memorybank": read_memorybank,
    "openai": read_openai,
    "sharegpt": read_sharegpt,
    "crosswoz": read_crosswoz,
    "locomo": read_locomo,
}


def _turns(name: str, session: str, messages: Iterable[Message], start_ms: int | None = None) -> Iterator[ImportedTurn]:
    for index, (question, answer) in enumerate(paired(messages)):
        at_ms = None if start_ms is None else start_ms + index * MINUTE_MS
        yield ImportedTurn(name, session, index, question, answer, at_ms)


def paired(messages: Iterable[Message]) -> Iterator[tuple[str, str | None]]:
    """Yield (user message, answer) of a conversation: answers in a row are joined, an unanswered message stands alone."""
    question: str | None = None
    answers: list[str] = []
    for side, text in messages:
        if side == "assistant":
            answers.append(text)
            continue
        if question is not None or answers:
            yield question or "", "\n".join(answers) or None
        question, answers = text, []
    if question is not None or answers:
        yield question or "", "\n".join(answers) or None


def _messages(entries: Iterable[Any], role_field: str, text_field: str, place: str) -> list[Message]:
    found = []
    for number, entry in enumerate(entries, start=1):
        here = f"{place}, message {number}"
        role = _text(entry, role_field, here).lower()
        if role in _SILENT_ROLES:
            continue
        if role not in _USER_ROLES + _ASSISTANT_ROLES:
            raise Rejected(f"{here}: the role {role[:40]!r} is neither the user's nor the assistant's", code="bad_file")
        text = _content(_field(entry, text_field, here), here)
        if text.strip():
            found.append(("user" if role in _USER_ROLES else "assistant", text))
    return found


def _content(content: Any, place: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = _list(content, place)
    return "\n".join(
        _text(part, "text", place) for part in parts if isinstance(part, dict) and part.get("type") == "text"
    )


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Rejected(f"line {line} is not UTF-8", code="bad_file") from error


def _json(data: bytes) -> Any:
    try:
        return json.loads(_decoded(data))
    except json.JSONDecodeError as error:
        raise Rejected(
            f"line {error.lineno}, column {error.colno} is not JSON: {error.msg}", code="bad_file"
        ) from error


def _lines(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_decoded(data).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, _mapping(json.loads(line), f"line {number}")
        except json.JSONDecodeError as error:
            raise Rejected(f"line {number}, column {error.colno} is not JSON: {error.msg}", code="bad_file") from error


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Rejected(f"{place} must be a JSON object", code="bad_file")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise Rejected(f"{place} must be a JSON list", code="bad_file")
    return value


def _field(entry: Any, name: str, place: str) -> Any:
    if name not in _mapping(entry, place):
        raise Rejected(f"{place} has no {name}", code="bad_file")
    return entry[name]


def _text(entry: Any, name: str, place: str) -> str:
    value = _field(entry, name, place)
    if not isinstance(value, str):
        raise Rejected(f"{place}: {name} must be a text", code="bad_file")
    return value


def _name(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Rejected(f"{place} names no user: give one with --user", code="bad_file")
    return value


def _session(value: Any, otherwise: str) -> str:
    if value is None or value == "":
        return otherwise
    text = str(value)
    return text if ID_PATTERN.match(text) else "s_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _date_ms(text: Any, pattern: str, options: ImportOptions, place: str) -> int:
    try:
        local = datetime.strptime(str(text), pattern).replace(tzinfo=zone_of(options.timezone_offset))
    except ValueError:
        raise Rejected(f"{place}: {str(text)[:40]!r} is not a date like {pattern}", code="bad_file") from None
    return int(local.timestamp() * 1000)
