"""The rules extractor: turns, steps and business records to candidates, without a model, in Chinese and English.

Owns the order in which the rule tables look at a turn, how a subject is carried from clause to clause, and what a
correction ends. Called by ``pipeline``. Pure: the same input gives the same candidates, whatever the time or the machine.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from schemas.candidates import Candidate, Extraction
from streams.extraction import chinese, english
from streams.extraction.answers import answer_facts, promises_of
from streams.extraction.causes import linked, with_reasons
from streams.extraction.clauses import Clause, clauses_of, language_of
from streams.extraction.commitments import Moment, commitments_of, events_of, moved, plans_without_time, times_in
from streams.extraction.facts import EXPLICIT, USER, Fact, candidate_of, person_by_word
from streams.extraction.inputs import RecordInput, StepInput, TurnInput
from streams.extraction.noise import is_noise
from streams.extraction.orders import order_of, orders_of
from streams.extraction.patterns import patterns
from streams.extraction.requests import contacts_of, wishes_of
from streams.text.masking import Span, find_identifiers
from streams.vocabulary import ONE, cardinality, normalised_value, opposite_of

_PATTERNS = patterns("rules")
EXTRACTOR = "rules"
EXTRACTOR_REVISION = "rules-1"
_MEMBER_ATTRIBUTES = frozenset({"family_member", "pet"})
_CHANGED = re.compile(r"现在|改|其实|又|不再|开始|now\b|actually|no longer|anymore|these days", re.IGNORECASE)
_POLITE = re.compile(
    r"(?:你|您)?(?:能不能|可不可以|可以|能)(?:请你)?(.{2,40}?)吗?$|(?:could|can|would|will) you (?:please )?(.{3,80})$",
    re.IGNORECASE,
)
_SAYS_I = re.compile(r"我|\b(?:I|my)\b", re.IGNORECASE)
_INSTEAD = _PATTERNS["instead"]
_INSTEAD_EN = _PATTERNS["instead_en"]


def extract_turn(turn: TurnInput) -> Extraction:
    """Return the candidates of a turn; the caller has gated both messages before."""
    facts = [*_stated(turn), *_from_answer(turn)]
    facts = _distinct(facts)
    extraction = _extraction(facts, turn.timezone_offset)
    return msgspec.structs.replace(extraction, candidates=linked(extraction.candidates, facts, turn.user_message))


def extract_step(step: StepInput) -> Extraction:
    """Return a tool failure for a failed step: tool, situation, error class and what worked instead; else nothing."""
    if step.outcome != "failed" or not (step.name or step.error):
        return _extraction([], step.timezone_offset)
    chinese_text = language_of(f"{step.remedy}{step.error}") == "zh" or step.locale.startswith("zh")
    error = (step.error or "failed")[:200]
    if chinese_text:
        sentence = f"工具 {step.name} 失败：{error}" + (f"；改用：{step.remedy[:200]}" if step.remedy else "")
    else:
        sentence = f"Tool {step.name} failed: {error}" + (f"; instead: {step.remedy[:200]}" if step.remedy else "")
    fact = Fact(
        attribute="tool_failure",
        value=error,
        language="zh" if chinese_text else "en",
        type="tool_failure",
        entity_type="tool",
        entity_id=step.name or "unknown",
        sentence=sentence,
        source="tool",
        importance=0.5,
        confidence=EXPLICIT,
        message_id=step.event_id,
        structured={
            "tool": step.name,
            "step": step.step,
            "error": error,
            "class": _error_class(error),
            "remedy": step.remedy[:200],
        },
    )
    return _extraction([fact], step.timezone_offset)


def extract_record(record: RecordInput) -> Extraction:
    """Return one candidate per attribute of a business record, taken as given (confidence 0.95, importance 0.9)."""
    language = "zh" if record.locale.startswith("zh") or _has_chinese(record.attributes) else "en"
    attributes = dict(record.attributes)
    known_status = any(name.endswith("status") for name in attributes)
    if record.status and not known_status:
        attributes[f"{record.entity_type}_status"] = msgspec.json.encode(record.status).decode()
    candidates = []
    for ordinal, (name, value) in enumerate(attributes.items()):
        plain = _plain(value)
        fact = Fact(
            attribute=name,
            value=plain,
            language=language,
            type=f"{record.entity_type}_state",
            entity_type=record.entity_type,
            entity_id=record.entity_id,
            source=record.source,
            confidence=EXPLICIT,
            importance=0.9,
            message_id=record.record_id or record.event_id,
            sentence=_record_sentence(record, name, plain, language),
        )
        candidates.append(replace_value(candidate_of(fact, ordinal, record.timezone_offset), value))
    return _finished(tuple(candidates))


def replace_value(candidate: Candidate, value: str) -> Candidate:
    """Return the candidate with a value that is JSON text already; other text becomes a JSON string."""
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError:
        value = msgspec.json.encode(value).decode()
    return msgspec.structs.replace(candidate, value=value)


def _stated(turn: TurnInput) -> list[Fact]:
    clauses = clauses_of(turn.user_message)
    moment = Moment(turn.stated_at_ms, turn.timezone_offset, turn.assistant_message or "")
    identifiers = find_identifiers(turn.user_message)
    facts: list[Fact] = []
    carried: str | None = USER
    person: str | None = None
    sentence = -1
    has_order = order_of(turn.user_message) is not None
    for clause in clauses:
        table = chinese if clause.language == "zh" else english
        if carried is None and clause.sentence != sentence:
            carried = USER
        sentence = clause.sentence
        subject, rest = table.subject_of(clause.text, carried, person)
        carried = subject if clause.language == "zh" else (subject or carried)
        found = list(_of_clause(clause, subject, rest, moment, identifiers, has_order=has_order))
        if subject == USER and facts_before(clause, clauses) and not _SAYS_I.search(clause.text):
            found = [fact for fact in found if fact.attribute != "name"]
        facts += [replace(fact, clause=clause.text) for fact in found]
        carried = _member_named(found, carried, clause)
        person = carried if carried and carried != USER else person
    facts += orders_of(
        turn.user_message, clauses, moment.answer, turn.previous_user_message or "", turn.assistant_message_id
    )
    facts += _corrections(turn, clauses, facts)
    own = [fact if fact.source == "assistant" else replace(fact, message_id=turn.user_message_id) for fact in facts]
    own = with_reasons(own, turn.user_message)
    return [*own, *_opposites(own, turn.user_message)]


def facts_before(clause: Clause, clauses: tuple[Clause, ...]) -> bool:
    """Return whether something was said before this clause, so that "called X" without a subject may mean a thing."""
    return any(other is not clause and not is_noise(other.text) for other in clauses[: clauses.index(clause)])


def _of_clause(
    clause: Clause, subject: str | None, rest: str, moment: Moment, identifiers: tuple[Span, ...], *, has_order: bool
) -> Iterator[Fact]:
    table = chinese if clause.language == "zh" else english
    times = times_in(clause, moment)
    yield from commitments_of(clause, subject or USER, times, moment)
    if clause.supposed:
        return
    if clause.question:
        if polite := _POLITE.match(clause.text):
            asked = next(group for group in polite.groups() if group)
            yield from wishes_of(asked, asked, clause.language)
        return
    wishes = list(wishes_of(clause.text, table.opened(clause.text), clause.language)) if subject in {USER, None} else []
    yield from wishes
    if subject is None:
        return
    stated = list(table.facts_of(clause.text, subject, rest, hedged=clause.hedged, past=clause.past))
    if clause.correction:
        stated = [replace(fact, intent="correct") for fact in stated]
    if not (wishes and any(fact.attribute in {"likes", "dislikes", "prefers", "avoids"} for fact in stated)):
        yield from stated
    contacts = [
        fact
        for fact in contacts_of(clause.text, clause.language, subject, identifiers)
        if not has_order or fact.attribute != "member_number"
    ]
    yield from contacts
    if subject == USER and not stated and not wishes and not contacts:
        yield from events_of(clause, subject, times, moment)
        if not times:
            yield from plans_without_time(rest, clause)


def _member_named(found: list[Fact], carried: str | None, clause: Clause) -> str | None:
    """After ``I have a daughter`` the next clause without a subject speaks about her."""
    for fact in found:
        if fact.attribute in _MEMBER_ATTRIBUTES and fact.subject == USER:
            words = person_by_word(clause.language)
            key = next(
                (
                    key
                    for word, key in sorted(words.items(), key=lambda item: -len(item[0]))
                    if word in fact.value.lower()
                ),
                None,
            )
            return f"person:{key}" if key else carried
    return carried


def _opposites(facts: list[Fact], message: str) -> list[Fact]:
    """A dislike ends an earlier like of the same; a like ends a dislike only where a change is told."""
    ended = []
    for fact in facts:
        opposite = opposite_of(fact.attribute)
        if not opposite or fact.negated or fact.confidence < 0.6:
            continue
        if fact.attribute == "likes" and not (_CHANGED.search(message) or fact.intent == "correct"):
            continue
        ended.append(replace(fact, attribute=opposite, negated=True, intent="correct", sentence=""))
    return ended


def _corrections(turn: TurnInput, clauses: tuple[Clause, ...], facts: list[Fact]) -> list[Fact]:
    """What a correction ends or replaces among the facts of the previous message."""
    if not turn.previous_user_message or not any(clause.correction for clause in clauses):
        return []
    earlier = [
        fact
        for fact in _stated(
            replace(turn, user_message=turn.previous_user_message, previous_user_message=None, assistant_message=None)
        )
        if not fact.negated
    ]
    ended: list[Fact] = []
    for fact in facts:
        for old in earlier:
            if old.attribute != fact.attribute or fact.negated or fact.type == "event_commitment":
                continue
            same_value = normalised_value(old.attribute, old.value) == normalised_value(fact.attribute, fact.value)
            if (same_value and old.subject != fact.subject) or (
                not same_value and old.subject == fact.subject and cardinality(fact.attribute) != ONE
            ):
                ended.append(replace(old, negated=True, intent="correct", sentence="", period=None))
    return ended or ([] if facts else list(_elliptical(turn, clauses, earlier)))


def _elliptical(turn: TurnInput, clauses: tuple[Clause, ...], earlier: list[Fact]) -> Iterator[Fact]:
    """A correction that names only the value: ``no, cashews, not peanuts``, ``不是下周二，是下周三``."""
    named = _instead(turn.user_message) or next(filter(None, (_instead(_bare(clause)) for clause in clauses)), None)
    if named is None:
        return
    new, old = named
    matching = [fact for fact in earlier if not old or fact.value in old or old in fact.value or old in fact.clause]
    if len(matching) != 1:
        return
    fact = matching[0]
    if fact.type == "event_commitment":
        moment = Moment(turn.stated_at_ms, turn.timezone_offset, turn.assistant_message or "")
        yield from moved(fact, new, moment)
        return
    yield replace(fact, value=new, structured=None, intent="correct", sentence="")
    if cardinality(fact.attribute) != ONE:
        yield replace(fact, negated=True, intent="correct", sentence="")


def _instead(text: str) -> tuple[str, str] | None:
    """The new and the old value of a correction, the old one empty where it is not named."""
    match = (_INSTEAD if language_of(text) == "zh" else _INSTEAD_EN).match(text.strip(" 。.!！"))
    if match is None:
        return None
    groups = {name: (value or "").strip(" ，,。.") for name, value in match.groupdict().items()}
    new = groups["new"] or groups["new2"] or groups.get("new3", "")
    return (new, groups["old"] or groups.get("old3", "")) if new else None


def _bare(clause: Clause) -> str:
    return chinese.opened(clause.text) if clause.language == "zh" else english.opened(clause.text)


def _from_answer(turn: TurnInput) -> Iterator[Fact]:
    answer = turn.assistant_message
    if not answer:
        return
    if turn.user_message:
        yield from answer_facts(turn.user_message, clauses_of(turn.user_message), answer, turn.assistant_message_id)
    yield from promises_of(answer, turn.assistant_message_id)


def _distinct(facts: list[Fact]) -> list[Fact]:
    seen: set[tuple[str, str, str, str, bool]] = set()
    kept = []
    for fact in facts:
        key = (fact.subject, fact.entity_id, fact.attribute, fact.value, fact.negated)
        if key not in seen:
            seen.add(key)
            kept.append(fact)
    return kept


def _extraction(facts: list[Fact], timezone_offset: str | None) -> Extraction:
    return _finished(tuple(candidate_of(fact, ordinal, timezone_offset) for ordinal, fact in enumerate(facts)))


def _finished(candidates: tuple[Candidate, ...]) -> Extraction:
    return Extraction(
        status="extracted" if candidates else "nothing",
        extractor=EXTRACTOR,
        extractor_revision=EXTRACTOR_REVISION,
        candidates=candidates,
    )


def _error_class(error: str) -> str:
    classes = (
        ("timeout", r"time ?d? ?out|超时|deadline"),
        ("permission", r"permission|denied|forbidden|unauthori|权限|401|403"),
        ("not_found", r"not found|404|找不到|不存在"),
        ("unavailable", r"unavailable|503|refused|不可用|502|连接"),
        ("invalid_input", r"invalid|validation|400|参数|格式"),
        ("rate_limit", r"rate limit|429|限流|频率"),
    )
    return next((name for name, pattern in classes if re.search(pattern, error, re.IGNORECASE)), "other")


def _has_chinese(attributes: dict[str, str]) -> bool:
    return any(re.search("[\u4e00-\u9fff]", value) for value in attributes.values())


def _plain(value: str) -> str:
    decoded: object
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
    return decoded if isinstance(decoded, str) else value


def _record_sentence(record: RecordInput, name: str, value: str, language: str) -> str:
    label = name.replace("_", " ")
    if language == "zh":
        entity = {"order": "订单", "ticket": "工单", "appointment": "预约"}.get(record.entity_type, record.entity_type)
        shown = {"order_status": "状态", "status": "状态"}.get(name, label)
        return f"{entity}{record.entity_id}的{shown}：{value}"
    return f"{record.entity_type.capitalize()} {record.entity_id}: {label} is {value}"
