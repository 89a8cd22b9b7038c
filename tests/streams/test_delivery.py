"""One message through one stage: what is retried, what is put away, and when the process ends before the acknowledgement."""

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
import stage_kit as kit

from schemas.candidates import MemoryExtracted
from schemas.dead import DeadLetter
from schemas.errors import Broken, Misconfigured, Rejected, Retryable
from schemas.inputs import Origin
from schemas.topics import CHAT_TURNS, EXTRACTED
from streams.attempts import Attempts
from streams.crash import CrashPoints
from streams.delivery import EXIT_BROKEN, EXIT_MISCONFIGURED, EXIT_UNAVAILABLE, Delivery, Surroundings
from streams.heartbeat import Heartbeat
from streams.stage import Input, Output, Refusal, StageResult


class Ended(BaseException):
    """Stands for the end of the process."""

    def __init__(self, code: int) -> None:
        self.code = code


def stop(code: int, /) -> NoReturn:
    raise Ended(code)


class Sent:
    """Keeps what was sent; ``fails`` are raised first, one a call."""

    def __init__(self, *fails: Exception) -> None:
        self.outputs: list[Output] = []
        self.fails = list(fails)

    async def send_all(self, outputs: Sequence[Output]) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.outputs += outputs


class Scripted:
    """A stage that raises what it was told to, one a call, and then succeeds."""

    name = "scripted"
    source = CHAT_TURNS

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def handle(self, inputs: Sequence[Input]) -> Sequence[StageResult | Rejected]:
        self.calls += 1
        if not self.errors:
            return [StageResult((Output(EXTRACTED, b"k", one.message),)) for one in inputs]
        error = self.errors.pop(0)
        if isinstance(error, Rejected):
            return [error for _ in inputs]
        raise error

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        return Refusal(StageResult((Output(EXTRACTED, b"k", b"empty"),), "rejected"), tenant_id="acme", user_id="u")


class Rig:
    def __init__(self, folder: Path, stage: object, *fails: Exception, **settings: object) -> None:
        self.folder, self.stage, self.sent = folder, stage, Sent(*fails)
        self.heartbeat = Heartbeat(None, "scripted")
        self.settings = kit.pure_settings(max_poll_seconds=0.4, topic_prefix="p.", **settings)
        self.restart()

    def restart(self) -> None:
        self.delivery = Delivery(
            self.stage,  # type: ignore[arg-type]
            Surroundings(
                self.settings,
                kit.CODEC,
                self.sent,
                Attempts(self.folder, "scripted"),
                self.heartbeat,
                CrashPoints(),
                stop=stop,
                now_ms=lambda: kit.NOW_MS,
            ),
        )

    async def deliver(self, offset: int = 5) -> None:
        await self.together(offset)

    async def together(self, *offsets: int) -> None:
        await self.delivery.deliver([Input(b"message", Origin(2, offset), b"key") for offset in offsets], generation=1)

    async def exit_code(self, offset: int = 5) -> int:
        with pytest.raises(Ended) as ended:
            await self.deliver(offset)
        return ended.value.code

    def letter(self) -> DeadLetter:
        (found,) = [output for output in self.sent.outputs if output.topic.name == "memory.dead"]
        return kit.CODEC.decode(found.value, DeadLetter)


async def test_outputs_are_sent_before_it_returns(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted())
    await rig.deliver()
    assert [output.value for output in rig.sent.outputs] == [b"message"]
    assert rig.delivery.counts == {"done": 1}


async def test_a_dependency_that_comes_back_is_waited_for_in_place(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted(Retryable("away", delay_seconds=0.01), Retryable("away", delay_seconds=0.01)))
    await rig.deliver()
    assert len(rig.sent.outputs) == 1
    assert rig.heartbeat.state == "ready"
    rig.heartbeat.set("stopping")
    await rig.deliver(6)
    assert rig.heartbeat.state == "stopping"


async def test_a_dependency_that_stays_away_ends_the_process_before_the_acknowledgement(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted(*[Retryable("away", delay_seconds=0.02)] * 50))
    assert await rig.exit_code() == EXIT_UNAVAILABLE
    assert rig.sent.outputs == []


async def test_waiting_for_a_dependency_is_never_held_against_the_input(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted(), attempts=2)
    for _ in range(6):
        rig.stage = Scripted(*[Retryable("away", delay_seconds=0.05)] * 50)
        rig.restart()
        await rig.exit_code()
    rig.stage = Scripted()
    rig.restart()
    await rig.deliver()
    assert [output.topic.name for output in rig.sent.outputs] == ["memory.extracted"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(Broken("x"), EXIT_BROKEN), (Misconfigured("x"), EXIT_MISCONFIGURED), (ZeroDivisionError("x"), EXIT_BROKEN)],
)
async def test_what_must_not_go_on_ends_the_process(tmp_path: Path, error: Exception, code: int) -> None:
    rig = Rig(tmp_path, Scripted(error))
    assert await rig.exit_code() == code
    assert rig.sent.outputs == []


async def test_a_send_that_fails_ends_the_process_or_is_tried_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted(), Retryable("broker away", delay_seconds=0.01))
    await rig.deliver()
    assert len(rig.sent.outputs) == 1
    assert await Rig(tmp_path, Scripted(), Broken("sequence lost")).exit_code() == EXIT_BROKEN


async def test_a_rejected_input_becomes_a_dead_letter_with_origin_and_reason_and_an_empty_record(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, Scripted(Rejected("no good", code="bad_text")))
    await rig.deliver()
    letter = rig.letter()
    assert (letter.stage, letter.topic, letter.partition, letter.offset) == ("scripted", "p.chat.turns", 2, 5)
    assert (letter.code, letter.reason, letter.value, letter.key) == ("bad_text", "no good", b"message", b"key")
    assert (letter.tenant_id, letter.user_id, letter.at_ms) == ("acme", "u", kit.NOW_MS)
    assert [output.value for output in rig.sent.outputs[1:]] == [b"empty"]
    await rig.deliver(6)
    assert rig.sent.outputs[-1].value == b"message"


async def test_a_refused_input_that_cannot_be_put_away_stops_the_process(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted(Rejected("no good")), Rejected("too large", code="too_large"))
    assert await rig.exit_code() == EXIT_BROKEN


class Blocking(Scripted):
    """A stage that works on its input until it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def handle(self, inputs: Sequence[Input]) -> Sequence[StageResult | Rejected]:
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize(("state", "code"), [("stopping", 0), ("ready", EXIT_BROKEN)])
async def test_a_cancelled_input_ends_the_process_because_faust_would_acknowledge_it(
    tmp_path: Path, state: str, code: int
) -> None:
    stage = Blocking()
    rig = Rig(tmp_path, stage)
    rig.heartbeat.set(state)
    delivering = asyncio.ensure_future(caught(rig.deliver()))
    await stage.begun.wait()
    delivering.cancel()
    assert await delivering == code
    assert rig.sent.outputs == []


async def caught(delivering: Awaitable[None]) -> int | None:
    """Return the exit code with which ``delivering`` ended the process."""
    try:
        await delivering
    except Ended as ended:
        return ended.code
    return None


async def test_poison_costs_a_bounded_number_of_attempts(tmp_path: Path) -> None:
    stage = Scripted(*[ZeroDivisionError()] * 99)
    rig = Rig(tmp_path, stage, attempts=3)
    for _ in range(3):
        assert await rig.exit_code() == EXIT_BROKEN
        rig.restart()
    await rig.deliver()
    assert stage.calls == 3
    assert rig.letter().code == "poison"


async def test_a_redelivery_after_success_does_not_count_as_an_attempt(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted(), attempts=2)
    for _ in range(6):
        await rig.deliver()
        rig.restart()
    assert {output.topic.name for output in rig.sent.outputs} == {"memory.extracted"}


class Fatal(Scripted):
    """A stage that ends with the process whenever ``poison`` is among its inputs; keeps which inputs came together."""

    def __init__(self, poison: int) -> None:
        super().__init__()
        self.poison = poison
        self.groups: list[list[int]] = []

    async def handle(self, inputs: Sequence[Input]) -> Sequence[StageResult | Rejected]:
        offsets = [one.position.offset for one in inputs]
        self.groups.append(offsets)
        if self.poison in offsets:
            raise ZeroDivisionError
        return [StageResult((Output(EXTRACTED, b"k", str(offset).encode()),)) for offset in offsets]


async def test_poison_among_others_is_found_and_costs_only_itself(tmp_path: Path) -> None:
    stage = Fatal(poison=7)
    rig = Rig(tmp_path, stage, attempts=3)
    ends = 0
    while True:
        try:
            # The group begins again where it had committed, before what was in flight.
            await rig.together(4, 5, 6, 7, 8, 9, 10)
        except Ended:
            ends += 1
            rig.restart()
        else:
            break
    assert ends == 1 + 3
    assert rig.letter().offset == 7
    # Together at first; then one by one up to the poison, which is tried as often as is allowed.
    assert stage.groups[:5] == [[4, 5, 6, 7, 8, 9, 10], [4], [5], [6], [7]]
    assert stage.groups[5:] == [[4, 5, 6], [7], [4, 5, 6], [7], [4, 5, 6], [8], [9], [10]]
    sent = [output.value for output in rig.sent.outputs if output.topic.name == "memory.extracted"]
    assert sent[-7:] == [b"4", b"5", b"6", b"empty", b"8", b"9", b"10"]
    await rig.together(11, 12)
    assert stage.groups[-1] == [11, 12]


async def test_what_follows_a_suspect_goes_together_again(tmp_path: Path) -> None:
    stage = Fatal(poison=6)
    rig = Rig(tmp_path, stage)
    with pytest.raises(Ended):
        await rig.together(5, 6)
    stage.poison = -1
    rig.restart()
    await rig.together(4, 5, 6, 7, 8)
    assert stage.groups[1:] == [[4], [5], [6], [7, 8]]


async def test_poison_before_what_was_in_flight_is_found_after_the_group_was_moved_back(tmp_path: Path) -> None:
    stage = Fatal(poison=900)
    rig = Rig(tmp_path, stage, attempts=3)
    with pytest.raises(Ended):
        await rig.together(899, 900)
    stage.poison = 5
    rig.restart()
    for _ in range(12):
        try:
            await rig.together(4, 5, 6)
        except Ended:
            rig.restart()
        else:
            break
    assert rig.letter().offset == 5


async def test_one_refused_output_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    stage = Fatal(poison=-1)
    rig = Rig(tmp_path, stage, Rejected("too large", code="too_large"), Rejected("too large", code="too_large"))
    await rig.together(1, 2, 3)
    assert rig.letter().offset == 1
    sent = [output.value for output in rig.sent.outputs if output.topic.name == "memory.extracted"]
    assert sent == [b"empty", b"2", b"3"]
    assert rig.delivery.counts == {"rejected": 1, "done": 2}


async def test_an_event_that_was_passed_over_stops_the_process(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted())
    await rig.deliver(5)
    await rig.deliver(6)
    assert await rig.exit_code(8) == EXIT_BROKEN
    # After the restart the group is at another generation, and begins where it had committed.
    rig.restart()
    await rig.deliver(7)


async def test_an_oversized_input_is_named_by_its_position_and_not_copied(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Scripted(Rejected("too large", code="too_large")), stage_limit_bytes=3)
    await rig.deliver()
    assert rig.letter().value is None
    assert "7 bytes" in rig.letter().reason


async def test_the_real_stage_puts_a_bad_input_away_and_goes_on(tmp_path: Path) -> None:
    keys = kit.MemoryKeys()
    rig = Rig(tmp_path, kit.extract_stage(keys))
    place = kit.position_of()
    good = await kit.message(keys, kit.turn("我喜欢爬山"))
    bad = await kit.message(keys, kit.turn("a\x00"), event_id="event-bad")
    after = Origin(place.partition, place.offset + 1)
    await rig.delivery.deliver([Input(bad, place, b"acme/xiaoming"), Input(good, after, b"acme/xiaoming")], 1)
    letter = rig.letter()
    assert (letter.code, letter.event_id, letter.offset) == ("bad_text", "event-bad", place.offset)
    statuses = [
        kit.CODEC.decode(output.value, MemoryExtracted).status
        for output in rig.sent.outputs
        if output.topic.name == "memory.extracted"
    ]
    assert statuses == ["rejected", "extracted"]
