"""Encoders that lie beside the open one, tuned from it for a task: they answer it unless another is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adapters.tasks.answerer import Answerer, AnswerOptions
from kbengine.encoders.answering import bundled_beside, fingerprint_for
from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.deltas import DELTA, ParameterOptions
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.model import query_weights
from kbengine.encoders.tuned_encoders import store_tuned
from kbengine.errors import QueryError, UnknownEncoderError
from kbengine.inputs import Dialogue, Mention, Question
from kbengine.knowledge_base import KnowledgeBase
from storage.reader import KBReader
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder

QUESTION = Question("which city is the capital of Japan")
MENTION = Mention.from_parts("The river crosses ", "Berlin", ".")
DIALOGUE = Dialogue(("which city is it", "the capital of Japan"))


def open_world(folder: Path) -> KnowledgeBase:
    """Return a small knowledge base that names an encoder beside which others can be stored."""
    encoder = Encoder.load(write_tiny_encoder(folder / "encoder"), device="cpu", dtype="float32")
    build_small_kb(folder / "kb", encoder)
    return KnowledgeBase.open(folder / "kb", encoder)


def beside(knowledge_base, name="tiny-linking", tasks=("entity-linking",), *, size=0.5, path: Path | None = None):
    """Store an encoder, its heads moved by a constant, beside the open one or in another place."""
    base = knowledge_base.encoder
    heads = query_weights(read_checkpoint(base.directory).weights)
    deltas = {DELTA + key: torch.full_like(each, size) for key, each in heads.items() if "start_head" in key}
    options = ParameterOptions("heads")
    return store_tuned(path or base.directory, name, deltas, base=base, options=options, tasks=tasks, report={})


def encoders_of(knowledge_base, requests, **options) -> list[str]:
    """The fingerprints that answers carry."""
    return [each.encoder for each in Answerer(knowledge_base).answer(requests, AnswerOptions(**options))]


def test_a_task_is_answered_by_the_encoder_that_lies_beside_the_open_one(tmp_path) -> None:
    """Nothing is asked for and nothing built again; other tasks and plain searches are answered as before."""
    with open_world(tmp_path) as knowledge_base:
        linking = beside(knowledge_base)
    with KnowledgeBase.open(tmp_path / "kb") as knowledge_base:
        own = knowledge_base.encoder.fingerprint
        found = encoders_of(knowledge_base, [QUESTION, MENTION, DIALOGUE, MENTION])

        assert found == [own, linking.fingerprint, own, linking.fingerprint]
        assert knowledge_base.search(QUESTION.text).encoder == own
        assert knowledge_base.encoder_for(task="entity-linking").name == "tiny-linking"
        assert [each.encoder for each in Answerer(knowledge_base).search([MENTION, QUESTION])] == [
            linking.fingerprint,
            own,
        ]


def test_answers_asked_for_together_are_those_of_each_alone(tmp_path) -> None:
    """In the order of the requests, whatever encoder answers them."""
    with open_world(tmp_path) as knowledge_base:
        beside(knowledge_base)
    with KnowledgeBase.open(tmp_path / "kb") as knowledge_base:
        answerer, requests = Answerer(knowledge_base), [MENTION, QUESTION, DIALOGUE, MENTION]
        together = answerer.answer(requests)

        assert [each.task for each in together] == ["entity-linking", "question", "dialogue", "entity-linking"]
        for request, answer in zip(requests, together, strict=True):
            alone = answerer.answer([request])[0]
            assert [each.text for each in alone.answers] == [each.text for each in answer.answers]
            assert [each.score for each in alone.answers] == pytest.approx([a.score for a in answer.answers], abs=1e-3)


def test_a_query_that_cannot_be_asked_is_named_by_its_place_among_all(tmp_path) -> None:
    """Not by that among the ones that one encoder answers."""
    with open_world(tmp_path) as knowledge_base:
        beside(knowledge_base)
    unaskable = Mention.from_parts("city", "\u200b", "")
    with KnowledgeBase.open(tmp_path / "kb") as knowledge_base, pytest.raises(QueryError, match=r"^query 2"):
        encoders_of(knowledge_base, [QUESTION, MENTION, unaskable, QUESTION])


def test_a_name_is_asked_of_every_task(tmp_path) -> None:
    """The open one's turns the others off; a task's may be asked for another task."""
    with open_world(tmp_path) as knowledge_base:
        linking = beside(knowledge_base)
        directory, own = str(knowledge_base.encoder.directory), knowledge_base.encoder.fingerprint
    with KnowledgeBase.open(tmp_path / "kb") as knowledge_base:
        assert encoders_of(knowledge_base, [QUESTION], encoder="tiny-linking") == [linking.fingerprint]
        assert encoders_of(knowledge_base, [MENTION], encoder=knowledge_base.encoder.name) == [own]
        with pytest.raises(UnknownEncoderError, match="it has tiny-linking"):
            encoders_of(knowledge_base, [MENTION], encoder="linker")
    with KnowledgeBase.open(tmp_path / "kb", directory) as knowledge_base:
        assert encoders_of(knowledge_base, [MENTION, QUESTION]) == [own, own]
    with KnowledgeBase.open(tmp_path / "kb", "tiny-linking") as knowledge_base:
        assert encoders_of(knowledge_base, [MENTION, QUESTION]) == [linking.fingerprint] * 2


def test_what_was_tuned_from_another_encoder_is_left_alone(tmp_path) -> None:
    """An encoder that was trained again in the same directory has other weights than those that were changed."""
    with open_world(tmp_path) as knowledge_base:
        base = knowledge_base.encoder
        knowledge_base.encoder.fingerprint, real = "0" * 64, base.fingerprint
        beside(knowledge_base)
        base.fingerprint = real
    with KnowledgeBase.open(tmp_path / "kb") as knowledge_base:
        assert encoders_of(knowledge_base, [MENTION]) == [real]


def test_one_of_the_knowledge_base_comes_before_a_bundled_one_of_the_same_name(tmp_path) -> None:
    """People tuned it for these documents."""
    with open_world(tmp_path) as knowledge_base:
        beside(knowledge_base)
        stored = beside(knowledge_base, size=2.0, path=knowledge_base.path)
        directory = str(knowledge_base.encoder.directory)
    with KnowledgeBase.open(tmp_path / "kb") as knowledge_base:
        assert encoders_of(knowledge_base, [MENTION]) == [stored.fingerprint]
    with KBReader.open(tmp_path / "kb") as reader:
        settings = reader.settings
    found = [fingerprint_for(tmp_path / "kb", settings, name, "entity-linking") for name in ("tiny-linking", directory)]
    assert found == [stored.fingerprint, settings.encoder_fingerprint]


def test_bundled_ones_are_told_of_without_loading_them(tmp_path) -> None:
    """Their records say what they are for."""
    with open_world(tmp_path) as knowledge_base:
        info = beside(knowledge_base)
        directory = str(knowledge_base.encoder.directory)
    with KBReader.open(tmp_path / "kb") as reader:
        settings = reader.settings
    assert [each.name for each in bundled_beside(directory)] == ["tiny-linking"]
    assert fingerprint_for(tmp_path / "kb", settings, None, "entity-linking") == info.fingerprint
    assert fingerprint_for(tmp_path / "kb", settings, None, "question") == settings.encoder_fingerprint
    with pytest.raises(UnknownEncoderError):
        fingerprint_for(tmp_path / "kb", settings, "linker", "question")
