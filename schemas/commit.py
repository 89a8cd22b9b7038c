"""Writes the next schema version of every class that changed, with a new id; refuses what breaks compatibility.

Run by a developer as ``python -m schemas.commit``; never at run time.
"""

import json
import sys
from pathlib import Path

from schemas.compatibility import load, problems_between
from schemas.derivation import avro_schema
from schemas.registry import AVRO_FOLDER, MANIFEST, fingerprint, normalised
from schemas.subjects import SUBJECTS


def commit(folder: Path = AVRO_FOLDER) -> list[str]:
    """Write new versions under ``folder``; return the names written. Raises ``SystemExit`` with the broken field."""
    known = load(folder)
    next_id = max((e["id"] for entries in known.values() for e in entries), default=0) + 1
    written = []
    for record in SUBJECTS:
        entries, schema = known.setdefault(record.__name__, []), avro_schema(record)
        if entries and normalised(entries[-1]["schema"]) == normalised(schema):
            continue
        for older in entries:
            for problem in problems_between(schema, older["schema"]):
                raise SystemExit(f"{record.__name__}: {problem}")
        version = len(entries) + 1
        path = folder / record.__name__ / f"{version}.avsc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", "utf-8")
        entries.append({"version": version, "id": next_id, "sha256": fingerprint(schema), "schema": schema})
        written.append(f"{record.__name__}/{version}")
        next_id += 1
    manifest = {s: [{k: e[k] for k in ("version", "id", "sha256")} for e in entries] for s, entries in known.items()}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return written


if __name__ == "__main__":
    sys.stdout.write("\n".join(commit()) + "\n")
