"""What the demo answers, recorded: `python -m tests.demo_answers` writes it anew when answers change on purpose."""

from __future__ import annotations

import json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from kbengine import Answer, KnowledgeBase
from kbengine.corpus.normalise import norm
from kbengine.terminal.demonstration import demo_queries
from kbengine.text_form import input_of

RECORDED = Path(__file__).parent / "demo-answers.json"


def demo_answers(folder: Path) -> list[dict[str, Any]]:
    """What a demo built in the folder answers first to each bundled query, whether that is right, and what follows."""
    corpus = str(files("kbengine") / "demo" / "corpus.jsonl")
    with KnowledgeBase.build(folder / "demo-kb", [corpus], dtype="float32", progress=False) as knowledge_base:
        queries = demo_queries()
        answers = knowledge_base.ask([input_of(each["task"], each["input"]) for each in queries], k=2)
    return [
        {
            "id": query["id"],
            "answer": found.answers[0].text,
            "status": found.status,
            "right": _is_right(query, found.answers[0]),
            "lead": round(found.answers[0].score - found.answers[1].score, 2),
        }
        for query, found in zip(queries, answers, strict=True)
    ]


def _is_right(query: dict[str, Any], answer: Answer) -> bool:
    """Phrases by KILT's exact match, documents by their id."""
    if query["task"] in ("question", "slot-filling"):
        return norm(answer.text) in {norm(output["answer"]) for output in query["output"]}
    pages = {page["wikipedia_id"] for output in query["output"] for page in output["provenance"]}
    return answer.evidence[0].document.doc_id in pages


def main() -> None:
    """Record the answers."""
    with tempfile.TemporaryDirectory() as folder:
        found = demo_answers(Path(folder))
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in found) + "\n]\n")


if __name__ == "__main__":
    main()
