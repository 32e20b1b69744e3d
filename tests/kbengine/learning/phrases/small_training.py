"""A small world to train in: sentences that the tiny encoder's vocabulary knows, and questions with their answers."""

from __future__ import annotations

import json
from pathlib import Path

from kbengine.encoders.tokenization import TextTokenizer
from kbengine.inputs import Question
from kbengine.learning.data.examples import TrainingExample
from kbengine.span import Span
from tests.tiny_encoder import tiny_config, tiny_tokenizer_json

FACTS = (
    ("France", "The capital of France is Paris and the river is old.", "capital of France", "Paris"),
    ("Germany", "The capital of Germany is Berlin and the town is old.", "capital of Germany", "Berlin"),
    ("Japan", "The capital of Japan is Tokyo and the city is old.", "capital of Japan", "Tokyo"),
    ("Curie", "Marie Curie was a Polish and French physicist in Paris.", "who was a physicist", "Marie Curie"),
    ("Water", "Water boils at one hundred degrees in air.", "water boils at", "one hundred degrees"),
    ("Light", "Light travels faster than sound in glass.", "what travels faster than sound", "Light"),
    ("Band", "The band sold one million copies in March.", "how many copies sold", "one million"),
    ("Forest", "The Amazon rainforest covers most of South America.", "what covers America", "Amazon rainforest"),
)


def example(number: int, **changes) -> TrainingExample:
    """Return one of the facts as an example, parts of it replaced."""
    title, passage, question, answer = FACTS[number]
    start = passage.index(answer)
    values = {
        "id": f"fact-{number}",
        "query": Question(question),
        "title": title,
        "passage": passage,
        "answers": (Span(start, start + len(answer)),),
        "source": "facts",
        "doc_id": title,
    }
    return TrainingExample(**(values | changes))


def examples() -> list[TrainingExample]:
    """Return all facts."""
    return [example(number) for number in range(len(FACTS))]


def tokenizer() -> TextTokenizer:
    """Return the tiny encoder's tokenizer."""
    config = tiny_config()
    return TextTokenizer(tiny_tokenizer_json(), uncased=True, vocab_size=config.backbone.vocab_size, source="tiny")


def write_squad(path: Path, rows=None) -> Path:
    """Return the path, which then holds the facts as SQuAD JSON."""
    articles = []
    for each in examples() if rows is None else rows:
        answers = [{"text": each.passage[span.start : span.end], "answer_start": span.start} for span in each.answers]
        qa = {"id": each.id, "question": each.query.text, "answers": answers, "is_impossible": not each.answerable}
        articles.append({"title": each.title, "paragraphs": [{"context": each.passage, "qas": [qa]}]})
    path.write_text(json.dumps({"data": articles}), encoding="utf-8")
    return path
