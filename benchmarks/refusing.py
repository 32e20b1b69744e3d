"""Which questions the demo answers: those that its texts hold an answer to, and few others.

Run: python -m benchmarks.refusing [--kb DIR]

`demo_unanswerable.txt` has 200 well-formed questions about things that the demo says nothing of,
`demo_answerable.tsv` 120 that it answers, with the answers. Nothing is fitted on either.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from adapters.tasks.answerer import Answerer, AnswerOptions
from adapters.tasks.answers import TaskAnswer
from benchmarks.measurement import write_result
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.corpus.normalise import norm
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.inputs import Question, TaskInput
from kbengine.knowledge_base import KnowledgeBase
from kbengine.terminal.demonstration import demo_queries
from kbengine.text_form import input_of

FOLDER = Path(__file__).parent
BATCH = 32


def unanswerable() -> list[str]:
    """Return questions that the demo holds no answer to."""
    return (FOLDER / "demo_unanswerable.txt").read_text(encoding="utf-8").splitlines()


def answerable() -> list[tuple[str, str]]:
    """Return questions that the demo answers, with the answer."""
    lines = (FOLDER / "demo_answerable.tsv").read_text(encoding="utf-8").splitlines()
    return [(question, answer) for question, _, answer in (line.partition("\t") for line in lines)]


def ask(knowledge_base: KnowledgeBase, asked: Sequence[TaskInput]) -> list[TaskAnswer]:
    """Return the answers, asked a batch at a time."""
    answerer = Answerer(knowledge_base)
    batches = [asked[begin : begin + BATCH] for begin in range(0, len(asked), BATCH)]
    return [each for batch in batches for each in answerer.answer(batch, AnswerOptions(k=1))]


def measure(knowledge_base: KnowledgeBase) -> dict[str, Any]:
    """Return which shares of the questions get no answer, in percent."""
    known = answerable()
    queries = [input_of(each["task"], each["input"]) for each in demo_queries()]
    found = {
        "unanswerable": ask(knowledge_base, [Question(text) for text in unanswerable()]),
        "answerable": ask(knowledge_base, [Question(text) for text, _ in known]),
        "demo_queries": ask(knowledge_base, queries),
    }
    right = [
        norm(answer.answers[0].text) == norm(wanted)
        for (_, wanted), answer in zip(known, found["answerable"], strict=True)
    ]
    lost = [each.best is None for each in (*found["answerable"], *found["demo_queries"])]
    return {
        "questions": {name: len(answers) for name, answers in found.items()},
        "no_answer_percent": {
            name: round(100 * sum(each.best is None for each in answers) / len(answers), 1)
            for name, answers in found.items()
        },
        "lost_percent": round(100 * sum(lost) / len(lost), 1),
        "right_of_answerable_percent": round(100 * sum(right) / len(right), 1),
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, help="the demo's knowledge base; built where it is not given")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.kb or Path(folder) / "demo-kb"
        if given.kb is None:
            corpus = CorpusOptions((Path(str(files("kbengine") / "demo" / "corpus.jsonl")),))
            build(corpus, path, encoder=Encoder.load(DEFAULT_ENCODER), filter_options=DEFAULT_FILTER)
        with KnowledgeBase.open(path) as knowledge_base:
            figures = measure(knowledge_base)
    write_result("refusing", "of questions that the demo cannot answer 90 % are refused, of others 3 %", figures)


if __name__ == "__main__":
    main()
