"""Data sets that want pages alone, sentences, or pages of two steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from adapters.kilt.lint import lint
from adapters.kilt.predicting import PredictOptions, predict_file
from adapters.kilt.scoring import score_files
from kbengine.corpus.sentences import sentence_spans
from kbengine.encoders.encoder import Encoder
from kbengine.errors import InvalidOptionError
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.query import Query, SearchOptions
from kbengine.search.results import SearchResult
from tests.adapters.fake_knowledge_base import (
    UNKNOWN,
    FakeKnowledgeBase,
    hit,
    predictions,
    text_of,
    write_lines,
)
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import SENTENCES, write_tiny_encoder


class TwoPages(FakeKnowledgeBase):
    """Knows the bridge by the question, and the river only when it is asked with what stands about the bridge."""

    def search(
        self, queries: Sequence[Query], options: SearchOptions | None = None, *, key_of: Any = None, **changes: Any
    ) -> list[SearchResult]:
        found = super().search(queries, options, key_of=key_of, **changes)
        return [
            SearchResult(self._pages(text_of(query)), each.generation, each.encoder, 5, False) if each.hits else each
            for query, each in zip(queries, found, strict=True)
        ]

    def _pages(self, text: str) -> tuple[Any, ...]:
        bridge, river, other = (
            hit(doc_id="1", title="Bridge", phrase="Danube"),
            hit(doc_id="2", title="River", phrase="1879"),
            hit(doc_id="3", title="Other"),
        )
        return (bridge, river) if "Bridge: Ulm lies on the Danube." in text else (bridge, other)


def predict(
    tmp_path: Path, name: str, knowledge_base: Any, text: str, task: Any = None, **options: Any
) -> tuple[str, list[str]]:
    """Answer and pages of a file of one record."""
    inputs = write_lines(tmp_path / name, [{"id": "a", "input": text}])
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    report = predict_file(knowledge_base, inputs, out, task=task, options=PredictOptions(overwrite=True, **options))
    assert not [each for each in lint(report.path, inputs).findings if "rejected" in each.severity]
    return predictions(report.path)["a"]


def test_claims_get_their_pages_and_no_verdict(tmp_path: Path) -> None:
    """FEVER by its name; any questions with `answer="pages"`; a phrase is written where it is asked for."""
    pages = [str(number) for number in range(5, 15)]
    claim = "Albert Einstein was born in Ulm."
    assert predict(tmp_path, "fever-dev-kilt.jsonl", FakeKnowledgeBase(), claim) == ("", pages)
    assert predict(tmp_path, "claims.jsonl", FakeKnowledgeBase(), claim, "question", answer="pages") == ("", pages)
    assert predict(tmp_path, "fever-dev-kilt.jsonl", FakeKnowledgeBase(), claim, answer="phrase")[0] != ""


def test_the_second_search_sees_what_the_first_found(tmp_path: Path) -> None:
    """HotpotQA by its name: both pages come first, and R-precision over both is 1; in one step the second is missed."""
    text = "When was the river under the bridge named?"
    assert predict(tmp_path, "hotpotqa-dev-kilt.jsonl", TwoPages(), text) == ("Danube", ["1", "2", "3"])
    gold = [{"answer": "Danube", "provenance": [{"wikipedia_id": "1"}, {"wikipedia_id": "2"}]}]
    path = write_lines(tmp_path / "gold.jsonl", [{"id": "a", "input": text, "output": gold}])
    scores = score_files(path, tmp_path / "out" / "hotpotqa-dev-kilt.jsonl")
    assert (scores.retrieval["Rprec"], scores.kilt["KILT-em"]) == (1, 1)
    assert predict(tmp_path, "hotpotqa-dev-kilt.jsonl", TwoPages(), text, steps=1)[1] == ["1", "3"]
    assert predict(tmp_path, "hotpotqa-dev-kilt.jsonl", TwoPages(), UNKNOWN) == ("", [])


def test_explanations_are_the_best_sentences(tmp_path: Path) -> None:
    """ELI5 by its name, a dialogue if asked for: whole sentences, scored by ROUGE-L with the pages and without."""
    write_tiny_encoder(tmp_path / "encoder")
    encoder = Encoder.load(tmp_path / "encoder", device="cpu", dtype="float32")
    with KnowledgeBase.open(build_small_kb(tmp_path / "kb", encoder)) as knowledge_base:
        answer, pages = predict(tmp_path, "eli5-dev-kilt.jsonl", knowledge_base, SENTENCES[2])
        said, _ = predict(tmp_path, "wow-dev-kilt.jsonl", knowledge_base, SENTENCES[2])
        more, _ = predict(tmp_path, "wow-dev-kilt.jsonl", knowledge_base, SENTENCES[2], answer="sentences")
    assert len(sentence_spans(said)) == 1 and len(sentence_spans(more)) == 3
    assert answer.startswith("She was the first woman") and len(sentence_spans(answer)) == 3
    gold = [{"answer": answer, "provenance": [{"wikipedia_id": pages[0]}]}]
    path = write_lines(tmp_path / "gold.jsonl", [{"id": "a", "input": "x", "output": gold}])
    scores = score_files(path, tmp_path / "out" / "eli5-dev-kilt.jsonl")
    assert scores.downstream["rougel"] == scores.kilt["KILT-rougel"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "seen"), [({"steps": 2}, "only questions"), ({"answer": "sentences"}, "of its own")]
)
def test_other_tasks_have_answers_of_their_own(tmp_path: Path, options: dict[str, Any], seen: str) -> None:
    """The error says which task it is."""
    with pytest.raises(InvalidOptionError, match=f"entity-linking.*{seen}|{seen}"):
        predict(tmp_path, "cweb-dev-kilt.jsonl", FakeKnowledgeBase(), json.dumps("x"), **options)
