"""Compatibility of schema versions: FULL_TRANSITIVE, proved with the reference Avro implementation.

Called by ``make check`` and by ``python -m schemas.commit``; needs the development package ``avro``. Every version of a
subject must be able to read what every other version wrote, and the newest must be what today's class says.
"""

import json
import sys
from pathlib import Path
from typing import Any

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse

from schemas.derivation import avro_schema
from schemas.registry import AVRO_FOLDER, MANIFEST, fingerprint, normalised
from schemas.subjects import SUBJECTS


def load(folder: Path = AVRO_FOLDER) -> dict[str, list[dict[str, Any]]]:
    """Return per subject its versions as ``{version, id, sha256, schema}``, oldest first."""
    manifest = json.loads((folder / MANIFEST).read_text("utf-8")) if (folder / MANIFEST).exists() else {}
    return {
        subject: [
            e | {"schema": json.loads((folder / subject / f"{e['version']}.avsc").read_text("utf-8"))} for e in entries
        ]
        for subject, entries in manifest.items()
    }


def problems_between(newer: dict[str, Any], older: dict[str, Any]) -> list[str]:
    """Return one sentence for each reason why the two schemas cannot read each other's data."""
    found = []
    for reader, writer, direction in ((newer, older, "older data"), (older, newer, "newer data")):
        result = ReaderWriterCompatibilityChecker().get_compatibility(
            parse(json.dumps(reader)), parse(json.dumps(writer))
        )
        if result.compatibility is not SchemaCompatibilityType.compatible:
            where = ", ".join(sorted(result.locations)) or "?"
            found.append(f"cannot read {direction}: {'; '.join(sorted(result.messages))} at {where}")
    return found


def check(folder: Path = AVRO_FOLDER) -> list[str]:
    """Return every problem of the committed schemas; an empty list means that the contract holds."""
    found = []
    committed = load(folder)
    for subject, versions in committed.items():
        for number, newer in enumerate(versions):
            if fingerprint(newer["schema"]) != newer["sha256"]:
                found.append(f"{subject}/{newer['version']}: changed after it was committed")
            for older in versions[:number]:
                found += [
                    f"{subject}/{newer['version']} against /{older['version']}: {problem}"
                    for problem in problems_between(newer["schema"], older["schema"])
                ]
    for record in SUBJECTS:
        entries = committed.get(record.__name__)
        if not entries:
            found.append(f"{record.__name__}: no schema is committed; run python -m schemas.commit")
        elif normalised(entries[-1]["schema"]) != normalised(avro_schema(record)):
            found.append(f"{record.__name__}: the class differs from its newest schema; run python -m schemas.commit")
    return found


def main() -> None:
    """Print the problems, one a line, and end with 1 if there are any."""
    found = check()
    sys.stdout.write("\n".join(found) + "\n" if found else "schemas: FULL_TRANSITIVE compatible\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
