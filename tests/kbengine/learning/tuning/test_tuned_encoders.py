"""Tuned encoders in a knowledge base that is open: chosen by name, loaded and replaced while it answers, verified."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from kbengine.build.checking import verify_kb
from kbengine.encoders import tuned_encoders
from kbengine.encoders.checkpoint import read_checkpoint, write_checkpoint
from kbengine.encoders.deltas import DELTA, ParameterOptions
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.model import query_weights
from kbengine.encoders.tuned_encoders import export_tuned, store_tuned
from kbengine.encoders.tuned_info import tuned_infos
from kbengine.errors import CorruptError, EncoderError, EncoderMismatchError, UnknownEncoderError
from kbengine.knowledge_base import KnowledgeBase
from storage.tuned_files import delete_tuned
from tests.kbengine.learning.tuning.tuning_world import open_world
from tests.tiny_encoder import write_tiny_encoder

QUESTION = "which city is the capital of Japan"


def store(knowledge_base, name="linker", *, size=0.5, parameters="heads"):
    """Store an encoder whose heads, or whole query side, are moved by a constant."""
    base = query_weights(read_checkpoint(knowledge_base.encoder.directory).weights)
    heads = {key: each for key, each in base.items() if parameters == "full" or key.startswith("query_start_head")}
    return store_tuned(
        knowledge_base.path,
        name,
        {DELTA + key: torch.full_like(each, size) for key, each in heads.items()},
        base=knowledge_base.encoder,
        options=ParameterOptions(parameters),
        tasks=("question",),
        report={"loss": "doc"},
    )


def test_an_encoder_is_there_when_it_appears_and_another_when_it_changes(tmp_path) -> None:
    """In a knowledge base that stays open; answers name what made them."""
    with open_world(tmp_path) as knowledge_base:
        with pytest.raises(UnknownEncoderError, match="it has none"):
            knowledge_base.search(QUESTION, encoder="linker")
        first = store(knowledge_base)
        one = knowledge_base.search(QUESTION, encoder="linker")
        assert knowledge_base.encoder_for("linker") is knowledge_base.encoder_for("linker")
        second = store(knowledge_base, size=-1.0)
        two = knowledge_base.search(QUESTION, encoder="linker")

        assert (one.encoder, two.encoder) == (first.fingerprint, second.fingerprint)
        assert len({one.encoder, two.encoder, knowledge_base.search(QUESTION).encoder}) == 3
        assert [hit.score for hit in one.hits] != [hit.score for hit in two.hits]
        assert one.generation == two.generation

        delete_tuned(knowledge_base.path, "linker")
        with pytest.raises(UnknownEncoderError):
            knowledge_base.search(QUESTION, encoder="linker")


def test_encoders_share_one_backbone(tmp_path) -> None:
    """Tuned heads bring no query encoder of their own; a whole query side brings that alone."""
    with open_world(tmp_path) as knowledge_base:
        store(knowledge_base, "heads")
        store(knowledge_base, "full", parameters="full")
        base, heads, full = (knowledge_base.encoder_for(name)._model for name in (None, "heads", "full"))

        assert heads.query_encoder is base.query_encoder and heads.query_start_head is not base.query_start_head
        assert full.query_encoder is not base.query_encoder
        assert heads.phrase_encoder is full.phrase_encoder is base.phrase_encoder
        assert full.embeddings is base.embeddings


def test_a_tuned_query_side_is_what_a_model_of_those_weights_gives(tmp_path) -> None:
    """Deltas on the packed encoder, and a whole model directory with them added: the same vectors."""
    with open_world(tmp_path) as knowledge_base:
        store(knowledge_base, parameters="full", size=0.01)
        checkpoint = read_checkpoint(knowledge_base.encoder.directory)
        weights = {
            name: each + 0.01 if name.startswith("query_") else each for name, each in checkpoint.weights.items()
        }
        write_checkpoint(tmp_path / "merged", checkpoint.config, checkpoint.tokenizer_json, weights, dtype="float32")
        merged = Encoder.load(tmp_path / "merged", device="cpu", dtype="float32")
        queries = [query.input for query in _queries()]

        expected, found = (each.encode_queries(queries) for each in (merged, knowledge_base.encoder_for("linker")))

        for name in ("start", "end", "passage"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=2e-3)


def test_a_name_given_at_opening_is_the_default(tmp_path) -> None:
    """What `kbengine query --encoder NAME` does; a search may still name another."""
    with open_world(tmp_path) as knowledge_base:
        info = store(knowledge_base)
        other = store(knowledge_base, "other", size=2.0)
        base = knowledge_base.encoder.fingerprint
    with KnowledgeBase.open(tmp_path / "kb", "linker") as knowledge_base:
        assert knowledge_base.search(QUESTION).encoder == info.fingerprint
        assert knowledge_base.search(QUESTION, encoder="other").encoder == other.fingerprint
        assert knowledge_base.encoder.fingerprint == base
        knowledge_base.add([{"id": "new", "title": "New", "text": "The river crosses the old town of Berlin."}])
    assert verify_kb(tmp_path / "kb", deep=True).ok


def test_few_are_kept_in_memory(tmp_path, monkeypatch) -> None:
    """Those used last; an older one is loaded again."""
    monkeypatch.setattr(tuned_encoders, "MAX_LOADED", 2)
    with open_world(tmp_path) as knowledge_base:
        for i in range(3):
            store(knowledge_base, f"e{i}", size=float(i + 1))
        first = knowledge_base.encoder_for("e0")
        assert knowledge_base.encoder_for("e1") and knowledge_base.encoder_for("e2")
        again = knowledge_base.encoder_for("e0")

        assert again is not first and again.fingerprint == first.fingerprint


def test_damage_is_found_by_verify_and_told_by_a_search(tmp_path) -> None:
    """The weights' checksum is in their record."""
    with open_world(tmp_path) as knowledge_base:
        store(knowledge_base)
        (file,) = (tmp_path / "kb" / "encoders" / "linker").glob("*.safetensors")
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)

        with pytest.raises(CorruptError, match="sha256"):
            knowledge_base.search(QUESTION, encoder="linker")
    report = verify_kb(tmp_path / "kb")
    assert [each.where for each in report.findings] == ["encoders/linker"] and not report.ok


def test_encoders_tuned_from_another_start_are_refused(tmp_path) -> None:
    """Their deltas are of other weights."""
    with open_world(tmp_path) as knowledge_base:
        store(knowledge_base)
        record = tmp_path / "kb" / "encoders" / "linker" / "encoder.json"
        from storage.tuned_files import tuned_weights, write_tuned

        files, data = tuned_weights(knowledge_base.path, "linker")
        write_tuned(knowledge_base.path, "linker", dict(files.facts) | {"base_fingerprint": "0" * 64}, data)
        assert record.exists()

        with pytest.raises(EncoderMismatchError, match="tuned from"):
            knowledge_base.search(QUESTION, encoder="linker")


def test_an_encoder_with_the_same_passage_side_opens_the_knowledge_base(tmp_path) -> None:
    """A whole model tuned elsewhere; one with another passage side does not."""
    with open_world(tmp_path) as knowledge_base:
        checkpoint = read_checkpoint(knowledge_base.encoder.directory)
    for prefix, name in (("query_", "same-passages"), ("phrase_encoder", "other-passages")):
        weights = {key: each + 0.1 if key.startswith(prefix) else each for key, each in checkpoint.weights.items()}
        write_checkpoint(tmp_path / name, checkpoint.config, checkpoint.tokenizer_json, weights, dtype="float32")
    with KnowledgeBase.open(tmp_path / "kb", str(tmp_path / "same-passages")) as knowledge_base:
        assert knowledge_base.search(QUESTION).encoder == knowledge_base.encoder.fingerprint != checkpoint.fingerprint
    with pytest.raises(EncoderMismatchError, match="other passage vectors"):
        KnowledgeBase.open(tmp_path / "kb", str(tmp_path / "other-passages"))


def test_knowledge_bases_of_earlier_versions_open_likewise(tmp_path) -> None:
    """They hold the whole fingerprint only: the encoder they name tells the other."""
    from kbengine.build.identity import check_encoder

    with open_world(tmp_path) as knowledge_base:
        settings = dataclasses.replace(knowledge_base.info().settings, passage_fingerprint="")
        checkpoint = read_checkpoint(knowledge_base.encoder.directory)
        check_encoder(knowledge_base.encoder, settings, tmp_path)
        weights = {key: each + 0.1 if key.startswith("query_") else each for key, each in checkpoint.weights.items()}
        write_checkpoint(tmp_path / "tuned", checkpoint.config, checkpoint.tokenizer_json, weights, dtype="float32")
        check_encoder(Encoder.load(tmp_path / "tuned", device="cpu"), settings, tmp_path)
        other = Encoder.load(write_tiny_encoder(tmp_path / "other", seed=9), device="cpu")
        with pytest.raises(EncoderMismatchError):
            check_encoder(other, settings, tmp_path)
        gone = dataclasses.replace(settings, encoder_name="gone")
        with pytest.raises(EncoderMismatchError):
            check_encoder(other, gone, tmp_path)


def test_a_stored_setting_is_not_missed_in_an_earlier_knowledge_base(tmp_path) -> None:
    """Its table has no row of the name."""
    import sqlite3

    with open_world(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "kb" / "kb.sqlite") as connection:
        assert connection.execute("DELETE FROM settings WHERE key = 'passage_fingerprint'").rowcount == 1
    with KnowledgeBase.open(tmp_path / "kb") as knowledge_base:
        assert knowledge_base.search(QUESTION).hits
    assert verify_kb(tmp_path / "kb").ok


def test_facts_are_listed_without_loading(tmp_path) -> None:
    """As plain JSON."""
    with open_world(tmp_path) as knowledge_base:
        info = store(knowledge_base)

        (found,) = tuned_infos(knowledge_base.path)

        assert found == info
        assert json.loads(json.dumps(found.to_json()))["tasks"] == ["question"]


def _queries():
    from kbengine.search.query import Query

    return [Query.question(text) for text in (QUESTION, "who", "where did the band tour in the old town")]


def test_an_exported_encoder_is_a_directory_with_the_same_passage_side(tmp_path) -> None:
    """It opens the knowledge base and finds what the stored one finds; packed weights are kept, not packed again."""
    with open_world(tmp_path) as knowledge_base:
        store(knowledge_base, parameters="full", size=0.01)
        base = knowledge_base.encoder
        export_tuned(knowledge_base.path, "linker", tmp_path / "out", base=base, dtype="float32")
        export_tuned(knowledge_base.path, "linker", tmp_path / "small", base=base)
        stored = knowledge_base.search(QUESTION, encoder="linker")
    for name in ("out", "small"):
        assert read_checkpoint(tmp_path / name).passage_fingerprint == base.passage_fingerprint
    with KnowledgeBase.open(tmp_path / "kb", str(tmp_path / "out")) as knowledge_base:
        exported = knowledge_base.search(QUESTION)

    assert [hit.score for hit in exported.hits] == pytest.approx([hit.score for hit in stored.hits], rel=1e-4)
    assert "linker" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(EncoderError, match="already exists"):
        export_tuned(tmp_path / "kb", "linker", tmp_path / "out", base=base)
