"""Gates on public sets: what they refuse of what is harmful, and what they refuse of what is not; identifiers found.

Owns the reading of JailBench, NotInject, MemoryBank, CrossWOZ messages and Presidio's sentences. Called by ``measure``. Texts
of JailBench are counted and never kept or shown.
"""

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from infra.quality.figures import Tally
from streams.gates.gate import gate0
from streams.gates.outcome import ADMIT
from streams.text.masking import find_identifiers
from streams.text.normalise import normalise

# What Presidio calls the kinds that our table of identifiers owns. Names, places and dates are no identifiers here.
_KINDS = {
    "CREDIT_CARD": "bank_card", "PHONE_NUMBER": "phone", "EMAIL_ADDRESS": "email", "IBAN_CODE": "iban",
    "US_SSN": "ssn", "IP_ADDRESS": "ip", "STREET_ADDRESS": "address",
}  # fmt: skip


def judge_jailbreaks(path: Path, tally: Tally) -> None:
    """Count refused prompts of a JailBench file (``.csv.gz`` with a column ``query``)."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            tally.add("jailbreaks refused", ("JailBench",), right=_refused(row["query"], "user"))


def judge_benign(path: Path, name: str, tally: Tally) -> None:
    """Count false alarms on a NotInject file (a list of ``{prompt, category}``)."""
    for number, case in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        refused = _refused(case["prompt"], "user")
        tally.add("false alarms", (name,), right=refused)
        if refused:
            tally.wrong("false alarm", f"{name}#{number}", case["prompt"])


def judge_chat(path: Path, name: str, tally: Tally) -> None:
    """Count false alarms on MemoryBank's messages, of users and assistants apart."""
    for number, (role, text) in enumerate(memorybank_messages(path)):
        refused = _refused(text, role)
        tally.add("false alarms", (f"{name} {role}",), right=refused)
        if refused:
            tally.wrong("false alarm", f"{name}#{number}", text)


def judge_task_chat(path: Path, tally: Tally) -> None:
    """Count false alarms on all messages of a CrossWOZ file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        dialogues = json.load(file)
    for dialogue in dialogues.values():
        for message in dialogue["messages"]:
            role = "user" if message["role"] == "usr" else "assistant"
            refused = _refused(message["content"], role)
            tally.add("false alarms", (f"CrossWOZ {role}",), right=refused)
            if refused:
                tally.wrong("false alarm", "CrossWOZ", message["content"])


def judge_identifiers(path: Path, tally: Tally) -> None:
    """Count identifiers of Presidio's sentences that are covered by a found span, by kind."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        cases = json.load(file)
    for number, case in enumerate(cases):
        found = find_identifiers(normalise(case["full_text"]))
        for span in case["spans"]:
            if (kind := _KINDS.get(span["entity_type"])) is None:
                continue
            value = normalise(span["entity_value"])
            hit = any(one.value in value or value in one.value for one in found)
            tally.add("identifiers found", ("Presidio", f"Presidio {kind}"), right=hit)
            if not hit:
                tally.wrong("identifier", f"Presidio#{number}", f"{kind}: {case['full_text']}")
        if not any(span["entity_type"] in {*_KINDS, "ZIP_CODE", "US_DRIVER_LICENSE"} for span in case["spans"]):
            tally.add("identifiers invented", ("Presidio",), right=bool(found))


def memorybank_messages(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (role, text) of every message of a MemoryBank file."""
    for person in json.loads(path.read_text(encoding="utf-8")).values():
        for turns in person["history"].values():
            for turn in turns:
                yield "user", turn["query"]
                yield "assistant", turn["response"]


def _refused(text: str, role: str) -> bool:
    return gate0(text, role).outcome != ADMIT
