"""Encoders of other languages: an XLM-RoBERTa loads, is trained and answers in four scripts."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch

from adapters.tasks.answerer import Answerer, AnswerOptions
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import FilterOptions
from kbengine.build.storing import StoreOptions
from kbengine.corpus.sentences import sentence_spans
from kbengine.encoders.bert import BertEmbeddings, BertStack
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.pretrained import read_pretrained
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.inputs import Question
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.phrases.initial import ModelOptions
from kbengine.learning.runs.encoder import EncoderRecipe
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.run import train_model
from kbengine.span import Span
from tests.tiny_xlm_roberta import FACTS, write_tiny_xlm_roberta


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny XLM-RoBERTa in a folder."""
    return write_tiny_xlm_roberta(tmp_path_factory.mktemp("xlm") / "model")


def test_states_are_those_of_the_model_library(backbone: Path) -> None:
    """Positions begin after the padding token there, and at 0 here: the states are the same."""
    from transformers import XLMRobertaModel

    read = read_pretrained(str(backbone))
    embeddings, stack = BertEmbeddings(read.backbone), BertStack(read.backbone)
    for module, prefix in ((embeddings, "embeddings."), (stack, "encoder.")):
        own = {name.removeprefix(prefix): each for name, each in read.weights.items() if name.startswith(prefix)}
        module.load_state_dict(own)
    ids = torch.tensor([[0, 7, 8, 9, 12, 2]])

    with torch.inference_mode():
        ours = stack.eval()(embeddings.eval()(ids), None)
        theirs = XLMRobertaModel.from_pretrained(backbone).eval()(ids).last_hidden_state

    assert read.backbone.max_position_embeddings == 512 and not read.uncased
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_tokens_stand_for_their_characters_without_blanks(backbone: Path) -> None:
    """In every script; pieces that are a blank alone stand for those of a neighbour; special tokens are RoBERTa's."""
    read = read_pretrained(str(backbone))
    tokenizer = TextTokenizer(read.tokenizer_json, uncased=False, vocab_size=read.backbone.vocab_size, source="x")
    texts = [text for _, text, _, _ in FACTS] + ["  Paris  東京 ", "</s> Paris", " ", "q Paris"]

    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id) == (0, 2, 1)
    for text, tokens in zip(texts, tokenizer.tokens(texts), strict=True):
        parts = [text[a:b] for a, b in zip(tokens.starts, tokens.ends, strict=True)]
        assert all(part and part == part.strip() for part in parts), parts
        spans = list(zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True))
        assert all(a == b or a[1] <= b[0] for a, b in itertools.pairwise(spans)), spans
        assert set("".join(parts)) == set(text) - {" "}
    assert 2 not in tokenizer.ids(["</s> Paris"])[0]


def test_it_is_trained_and_answers_in_four_scripts(backbone: Path, tmp_path: Path) -> None:
    """The loss falls; every question gets its answer as it is written, from the right document."""
    examples = tuple(
        TrainingExample(
            title, Question(question), title, text, (Span(text.index(answer), text.index(answer) + len(answer)),)
        )
        for title, text, question, answer in FACTS
    )
    recipe = EncoderRecipe(
        model=ModelOptions(str(backbone), dropout=0.0, max_passage_tokens=64, frozen="none"),
        loop=LoopOptions(epochs=60, batch_size=4, device="cpu", optimizer=OptimizerOptions(learning_rate=5e-3)),
        weights="float32",
    )
    train_model(recipe, tmp_path / "encoder", examples=Examples(examples, (), DataReport()))
    corpus = tmp_path / "corpus.jsonl"
    lines = [{"_id": str(i), "title": title, "text": text} for i, (title, text, _, _) in enumerate(FACTS)]
    corpus.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    encoder = Encoder.load(tmp_path / "encoder", device="cpu", dtype="float32")
    build(
        CorpusOptions((corpus,)),
        tmp_path / "kb",
        encoder=encoder,
        filter_options=FilterOptions(),
        store=StoreOptions(code_bits=8),
    )

    with KnowledgeBase.open(tmp_path / "kb", encoder) as knowledge_base:
        asked = [Question(question) for _, _, question, _ in FACTS]
        answers = Answerer(knowledge_base).answer(asked, AnswerOptions(k=1, threshold=0.0))

    assert [each.answers[0].document.title for each in answers] == [title for title, *_ in FACTS]
    assert [each.answers[0].text for each in answers] == [answer for *_, answer in FACTS]


@pytest.mark.parametrize("text", [text for _, text, _, _ in FACTS])
def test_sentences_end_where_their_script_ends_them(text: str) -> None:
    """Full stops, and the Japanese one without a blank after it."""
    assert len(sentence_spans(text)) == 2
