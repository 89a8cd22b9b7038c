"""``engram turn``, ``engram import`` and the examples, against real workers: from the command line to the truth."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment_of
from worker_kit import read_all, workers

from schemas.codec import Codec
from schemas.ids import user_id_of_name
from schemas.inputs import InputEnvelope
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[2]
CODEC = Codec()
DIARY = {
    "张曼婷": {
        "history": {
            "2023-04-27": [
                {"query": "我喜欢品茶", "response": "好的"},
                {"query": "我对花生过敏", "response": "记住了"},
            ]
        }
    },
    "Emily": {"history": {"2023-04-27": [{"query": "I live in Leeds", "response": "Nice"}]}},
}


async def engram(settings: Settings, *words: str) -> subprocess.CompletedProcess[str]:
    return await run(settings, sys.executable, "-m", "infra.cli", *words)


async def run(settings: Settings, *command: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run,
        list(command),
        env={"PATH": "/usr/bin:/bin", **environment_of(settings)},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        check=False,
    )


async def envelopes(settings: Settings) -> list[InputEnvelope]:
    return [CODEC.decode(value, InputEnvelope) for _, _, value in await read_all(settings, CHAT_TURNS)]


async def test_a_turn_is_sent_and_its_position_told(topics: Settings) -> None:
    done = await engram(
        topics, "turn", "--tenant", "acme", "--user", "小明", "我对花生过敏", "--answer", "好的", "--json"
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (envelope,) = await envelopes(topics)
    assert (told["event_id"], told["user_id"], told["offset"]) == (envelope.event_id, user_id_of_name("小明"), 0)
    assert told["remembered"] is False


async def test_an_import_twice_adds_the_same_ids_and_a_broken_file_adds_nothing(
    topics: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "diary.json"
    file.write_text(json.dumps(DIARY, ensure_ascii=False), "utf-8")
    words = ("import", str(file), "--format", "memorybank", "--tenant", "acme")
    first = await engram(topics, *words)
    assert first.returncode == 0, first.stderr
    assert "3 turns of 2 users sent" in first.stdout
    again = await engram(topics, *words, "--json")
    assert json.loads(again.stdout)["turns"] == 3
    ids = [envelope.event_id for envelope in await envelopes(topics)]
    assert (len(ids), len(set(ids))) == (6, 3)
    file.write_text(json.dumps({**DIARY, "Zoe": {"history": {"2023-04-27": [{"query": "x"}]}}}), "utf-8")
    broken = await engram(topics, *words)
    assert broken.returncode == 65
    assert "diary.json: Zoe, 2023-04-27, turn 1 has no response; nothing was imported" in " ".join(
        broken.stderr.split()
    )
    assert len(await envelopes(topics)) == 6


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("turn", "--tenant", "a b", "--user", "x", "hi"), 65, "tenant must be 1 to 128 characters"),
        (("turn", "--tenant", "acme", "--user", "x", " "), 65, "a turn needs a user message or an answer"),
        (("import", "README.md", "--format", "diary", "--tenant", "acme"), 65, "there is no format diary"),
    ],
)
async def test_a_mistake_is_one_sentence_and_a_code(
    topics: Settings, words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = await engram(topics, *words)
    assert done.returncode == code
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


async def test_from_the_command_line_to_the_truth_and_out_to_another_service(topics: Settings, tmp_path: Path) -> None:
    with workers(topics, tmp_path, "extract", "admit", "embed", "remember", "working", "relay") as started:
        await asyncio.gather(*(worker.state("ready") for worker in started))
        sent = await engram(
            topics, "turn", "--tenant", "acme", "--user", "ann", "I'm allergic to peanuts", "--wait", "--json"
        )
        assert sent.returncode == 0, sent.stderr
        assert json.loads(sent.stdout)["remembered"] is True
        example = await run(topics, sys.executable, "examples/gateway.py")
        assert example.returncode == 0, example.stderr
        assert example.stdout.count("remembered: ") == 2
        printer = await asyncio.create_subprocess_exec(
            sys.executable, "examples/print_changes.py", "crm",
            env={"PATH": "/usr/bin:/bin", **environment_of(topics)}, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip
        try:
            assert printer.stdout is not None
            seen = ""
            while not ("peanuts" in seen and "小明" in seen):
                line = await asyncio.wait_for(printer.stdout.readline(), 60)
                assert line, f"the example ended after: {seen}"
                seen += line.decode()
        finally:
            printer.terminate()
            await printer.wait()
        assert "acme/ann created v1" in seen
        codes = await asyncio.gather(*(worker.stop() for worker in started))
        assert set(codes) == {0}
