"""Make a frozen knowledge base with the checkout of an earlier version, and record what that version answers.

python tests/frozen/record.py CHECKOUT tests/frozen/kb-COMMIT
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ASKED = (
    ("When was Ardo Lighthouse first lit?", "-k", "2"),
    ("How deep is Lake Orrin?", "-k", "2"),
    ("Who made the lamp?", "--unit", "sentence", "-k", "1"),
    ("Which fish lives in the lake?", "--unit", "passage", "-k", "3"),
    ("Where did the salt barges pass?", "--unit", "document", "-k", "3", "--effort", "exact"),
    ("--subject", "Salt Bridge", "--relation", "designed by", "-k", "2"),
    ("--task", "slot-filling", "Kesta (town) [SEP] mayor", "-k", "2"),
    ("--subject", "Mira Tolvanen", "--relation", "P26", "-k", "2"),
    ("--text", "We sailed up the Kesta to its source in the lake.", "--span", "17:22", "-k", "2"),
    ("--task", "entity-linking", "From the [START_ENT] Old Light [END_ENT] you see the whole island.", "-k", "2"),
    ("--turn", "I love old bridges.", "--turn", "Who built the one over the Kesta?", "-k", "3"),
    ("--turn", "What happens in the town in September?", "--unit", "passage", "-k", "2"),
)


def record(checkout: Path, kb: Path) -> None:
    """Write the knowledge base: two segments, one document replaced, one deleted, two aliases; then `answers.json`."""

    def run(*arguments: object) -> str:
        command = [sys.executable, "-m", "kbengine.cli", *map(str, arguments)]
        return subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.PIPE, text=True).stdout

    kb = kb.resolve()
    run("build", HERE / "corpus.jsonl", "--kb", kb, "--dtype", "float32", "--index", "ivf-sq8")
    run("add", HERE / "changes.jsonl", "--kb", kb, "--dtype", "float32")
    run("delete", "blue-kiln", "--kb", kb)
    run("aliases", "add", "ardo-lighthouse", "Old Light", "--kb", kb)
    run("aliases", "add", "kesta-river", "Kesta", "--prior", "0.6", "--kb", kb)
    lines = []
    for asked in ASKED:
        answered = json.loads(run("query", "--kb", kb, "--json", "--explain", *asked))
        del answered["timings_ms"]
        lines.append(json.dumps({"asked": asked, "answered": answered}, ensure_ascii=False))
    (kb / "answers.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    for left in (*kb.glob("kb.sqlite-*"), kb / "writer.lock"):
        left.unlink(missing_ok=True)


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]))
