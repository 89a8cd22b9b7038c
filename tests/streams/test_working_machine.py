"""The session's state machine: telling events in both languages, the table of transitions, the fold."""

import itertools

import pytest
import stage_kit as kit
from msgspec.structs import asdict, replace

from schemas.inputs import AttachmentDescribed, Origin, RecordReceived, StepRecorded
from streams.text.masking import mask
from streams.working_machine import ANY, LAST_EVENTS, STATES, STAYS, TRANSITIONS, Session, advance, next_state
from streams.working_signals import Signal, signal_of

SAYINGS = [
    ("我想预约周五下午的牙科", "I want to book a dentist appointment on Friday", "UserRequestedAppointment"),
    ("我对青霉素过敏", "I'm allergic to penicillin", "UserProvidedAllergyInfo"),
    ("我妈妈对花生过敏", "My mother is allergic to peanuts", "UserProvidedAllergyInfo"),
    ("我对花生不过敏", "I'm not allergic to peanuts", "UserDeniedAllergyInfo"),
    ("取消我的订单", "Please cancel my order", "UserCancelledRequest"),
    ("好的", "Yes, please", "UserConfirmedAction"),
    ("不用了，谢谢", "No thanks", "UserDeclinedAction"),
    ("不对，我说错了，我住在苏州", "Sorry, I misspoke, I live in Leeds", "UserCorrectedInfo"),
    ("我的电脑打不开了", "My laptop won't start", "UserReportedProblem"),
    ("以后回答简短一点", "Please always answer in English", "UserGaveInstruction"),
    ("我的手机号是[PHONE_MASKED]", "My phone number is [PHONE_MASKED]", "UserProvidedContactInfo"),
    ("我叫小明，在深圳做后端", "My name is Ming and I live in Leeds", "UserProvidedPersonalInfo"),
    ("我喜欢喝美式咖啡", "I love black coffee", "UserStatedPreference"),
    ("北京明天天气怎么样？", "What is the weather tomorrow?", "UserAskedQuestion"),
    ("你好！", "Hello!", "UserGreeted"),
    ("昨天走了很远的路", "Walked a long way yesterday", "UserSpoke"),
]


def said(user_text: str, answer_text: str = "") -> Signal:
    return signal_of(kit.turn(user_text, answer_text), user_text=user_text, answer_text=answer_text, refused=False)


def happened(body: StepRecorded | RecordReceived | AttachmentDescribed) -> Signal:
    parts = {name: value for name, value in asdict(body).items() if isinstance(value, str)}
    return signal_of(body, user_text="", answer_text="", refused=False, parts=parts)


@pytest.mark.parametrize(("chinese", "english", "event_type"), SAYINGS)
def test_a_saying_has_the_same_telling_event_in_both_languages(chinese: str, english: str, event_type: str) -> None:
    assert (said(chinese).event_type, said(english).event_type) == (event_type, event_type)


@pytest.mark.parametrize("text", ["我对花生不过敏了吗", "The capital of France", "花生很好吃"])
def test_what_only_looks_like_an_allergy_is_none(text: str) -> None:
    assert said(text).event_type != "UserProvidedAllergyInfo"


def test_the_fields_are_found() -> None:
    assert said("我对青霉素过敏").fields == {"allergen": "青霉素"}
    assert said("I'm allergic to penicillin").fields == {"allergen": "penicillin"}
    assert said("我妈妈对花生过敏").fields == {"who": "我妈妈", "allergen": "花生"}
    assert "周五下午" in said("我想预约周五下午的牙科").fields["what"]
    assert "appointment" in said("I want to book a dentist appointment on Friday").fields["what"]


@pytest.mark.parametrize(
    ("answer", "posture"),
    [
        ("周五下午三点可以吗？还需要您确认。", "asks_confirmation"),
        ("Shall I book it for Friday?", "asks_confirmation"),
        ("请提供您的手机号", "asks_information"),
        ("Please send me your order number.", "asks_information"),
        ("已经为您处理", "answers"),
        ("It is done.", "answers"),
        ("", "none"),
    ],
)
def test_the_answer_says_how_things_are_left(answer: str, posture: str) -> None:
    assert said("x", answer).posture == posture


@pytest.mark.parametrize(
    ("step", "event_type"),
    [
        (StepRecorded(step="tool_call", name="search"), "ToolCallStarted"),
        (StepRecorded(step="tool_call", name="search", outcome="ok"), "ToolCallSucceeded"),
        (StepRecorded(step="tool_call", name="search", outcome="failed", error="timeout"), "ToolCallFailed"),
        (StepRecorded(step="plan"), "PlanUpdated"),
        (StepRecorded(step="observation"), "ObservationRecorded"),
        (StepRecorded(step="task_ended"), "TaskEnded"),
        (StepRecorded(step="page_opened"), "PageOpened"),
        (StepRecorded(step="something_new"), "StepRecorded"),
    ],
)
def test_steps_have_telling_events(step: StepRecorded, event_type: str) -> None:
    assert happened(step).event_type == event_type


def test_records_and_attachments_have_telling_events() -> None:
    record = RecordReceived(
        source="business_record", entity_type="order", entity_id="1", attributes={}, status="shipped"
    )
    attachment = AttachmentDescribed(media_type="image/png", uri="u", sha256="0" * 64, size_bytes=1)
    assert happened(record).event_type == "BusinessRecordReceived"
    assert happened(attachment).event_type == "AttachmentReceived"


@pytest.mark.parametrize(
    "body",
    [
        StepRecorded(
            step="tool_call", name="打电话给13800138000", outcome="failed", error="no answer: ann@example.com"
        ),
        StepRecorded(step="state_change", name="13800138000", detail='{"state": "13800138000"}'),
        RecordReceived(
            source="13800138000", entity_type="ann@example.com", entity_id="1", attributes={}, status="13800138000"
        ),
        AttachmentDescribed(media_type="13800138000", uri="u", sha256="0" * 64, size_bytes=1),
    ],
)
def test_only_the_masked_parts_of_a_body_are_read(body: StepRecorded | RecordReceived | AttachmentDescribed) -> None:
    parts = {name: mask(value) for name, value in asdict(body).items() if isinstance(value, str)}
    signal = signal_of(body, user_text="", answer_text="", refused=False, parts=parts)
    assert "13800138000" not in repr(signal)
    assert "ann@example.com" not in repr(signal)
    assert "MASKED" in repr(signal)


def test_refused_text_makes_an_event_without_fields() -> None:
    signal = signal_of(kit.turn("x"), user_text="[REFUSED]", answer_text="", refused=True)
    assert (signal.event_type, signal.fields) == ("InputRefused", {})


def run(*signals: Signal) -> list[str]:
    states = ["idle"]
    for signal in signals:
        states.append(next_state(states[-1], signal))
    return states


def test_an_appointment_is_asked_for_confirmed_and_done() -> None:
    assert run(
        said("我想预约周五下午的牙科", "请问您的姓名是什么？请提供手机号"),
        said("我叫李华", "周五下午三点可以吗？需要您确认"),
        said("好的", "已经预约"),
    ) == ["idle", "collecting_info", "confirming_action", "idle"]


def test_a_cancelled_request_is_over() -> None:
    asked = said("I want to book a dentist appointment", "Shall I book it for Friday?")
    assert run(asked, said("Cancel the appointment", "Done."))[-1] == "idle"


def test_tools_move_the_session_while_it_works() -> None:
    steps = [
        Signal("ToolCallStarted"),
        Signal("ToolCallFailed"),
        Signal("ToolCallSucceeded"),
        Signal("TaskEnded"),
    ]
    assert run(*steps) == ["idle", "querying_knowledge", "querying_knowledge", "generating_response", "idle"]


def test_a_step_may_set_a_state_that_exists_and_no_other() -> None:
    set_to = StepRecorded(step="state_change", detail='{"state": "confirming_action"}')
    unknown = StepRecorded(step="state_change", detail='{"state": "flying"}')
    by_name = StepRecorded(step="state_change", name="collecting_info", detail="not json")
    signals = [happened(step) for step in (set_to, unknown, by_name)]
    assert run(*signals) == ["idle", "confirming_action", "confirming_action", "collecting_info"]


def test_the_table_names_only_states_that_exist_and_answers_every_event() -> None:
    for row in TRANSITIONS:
        assert row.state in (ANY, *STATES)
        assert row.target in (STAYS, *STATES)
    for state in STATES:
        for event_type in ("UserSpoke", "SomethingNobodyThoughtOf"):
            for posture in ("asks_confirmation", "asks_information", "answers", "none"):
                assert next_state(state, Signal(event_type, posture)) in STATES


async def test_every_state_can_be_reached_from_idle() -> None:
    reached = {"idle"}
    for row in TRANSITIONS:
        if row.target in STATES:
            reached.add(row.target)
    assert reached == set(STATES)


async def fold(*sayings: tuple[str, str]) -> list[tuple[Session, object]]:
    envelope = await kit.sealed_envelope(kit.MemoryKeys(), kit.turn("x"))
    session, made = Session(), []
    for number, (text, answer) in enumerate(sayings):
        session, event, _ = advance(
            session,
            replace(envelope, event_id=f"event-{number}"),
            said(text, answer),
            masked_input=text,
            occurred_at_ms=kit.NOW_MS + number,
            origin=Origin(1, number),
            hash_key=b"k" * 32,
        )
        made.append((session, event))
    return made


async def test_the_fold_counts_keeps_the_last_five_and_chains_the_states() -> None:
    made = await fold(*[("我喜欢咖啡", "好。")] * 7)
    session, last = made[-1]
    events = [event for _, event in made]
    assert session.sequence == 7
    assert session.last_event_ids == tuple(e.event_id for e in events[-LAST_EVENTS:])
    assert [e.sequence for e in events] == list(range(1, 8))
    assert all(later.state_from == earlier.state_to for earlier, later in itertools.pairwise(events))
    assert len({e.event_id for e in events}) == 7
    assert last.origin == Origin(1, 6)


async def test_the_same_input_makes_the_same_event_and_hash() -> None:
    first, again = await fold(("我对花生过敏", "")), await fold(("我对花生过敏", ""))
    assert first[0][1] == again[0][1]
    other = await fold(("我对牛奶过敏", ""))
    assert other[0][1].content_hash != first[0][1].content_hash


async def test_a_yes_confirms_only_where_something_is_being_confirmed() -> None:
    alone = (await fold(("好的", "")))[0][1]
    asked = await fold(("我想预约周五下午的牙科", "周五三点可以吗？"), ("好的", "已预约"))
    assert alone.event_type == "UserAcknowledged"
    assert asked[1][1].event_type == "UserConfirmedAction"


async def test_what_a_task_gathered_does_not_leak_into_the_next() -> None:
    made = await fold(("我想预约周五下午的牙科", "周五三点可以吗？"), ("好的", "已预约"), ("北京天气怎么样？", "晴。"))
    assert made[0][0].fields
    assert made[1][0].fields == {}
