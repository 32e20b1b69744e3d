"""`kbengine densephrases` as people call it: a checkpoint, a dump, then a question."""

from __future__ import annotations

from pathlib import Path

from kbengine.encoders.encoder import Encoder
from kbengine.knowledge_base import KnowledgeBase
from tests.kbengine.densephrases.published import published_document, write_phrase_dump
from tests.kbengine.densephrases.test_densephrases_command import run, write_model
from tests.tiny_encoder import SENTENCES


def test_checkpoint_and_dump_give_a_knowledge_base_that_answers(tmp_path: Path) -> None:
    """Three commands of which the last is the usual one."""
    model = write_model(tmp_path)
    encoder = Encoder.load(model, device="cpu", dtype="float32")
    document = published_document(encoder, "12", "Water", SENTENCES[8:10])
    write_phrase_dump(tmp_path / "dump" / "phrase" / "0-1.hdf5", [document])
    facts = run("dump", tmp_path / "dump", "--encoder", model, "--kb", tmp_path / "kb", "--device", "cpu", "--json")
    assert (facts["documents"], facts["passages"], facts["vectors_left_out"]) == (1, 2, 0)
    assert isinstance(facts["cosine_with_the_encoder"], float) and facts["cosine_with_the_encoder"] > 0.98
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        hit = kb.search("When does water boil?", k=1).hits[0]
    assert (hit.document.doc_id, hit.document.title) == ("12", "Water")
