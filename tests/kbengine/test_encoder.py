"""The encoder gives each passage and query its own vectors, whatever is encoded beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from kbengine.encoders.checkpoint import read_checkpoint, write_checkpoint
from kbengine.encoders.config import ARCHITECTURES
from kbengine.encoders.device import choose_device, choose_dtype, cpu_is_faster_in_bf16
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.encoders.fused import can_prepack
from kbengine.errors import EncoderError, InvalidOptionError, UsageError
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput
from tests.tiny_encoder import SENTENCES, tiny_config, tiny_model, tiny_tokenizer_json, tiny_weights, write_tiny_encoder

QUERIES: list[TaskInput] = [
    Question("Where was the author born?"),
    Slot("Marie Curie", "place of birth"),
    Mention.from_parts("The capital of", "France", "is Paris."),
    Dialogue(["Who wrote the novel?", "A woman from Poland.", "When did she die?"]),
    Question("Paris"),
]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """A tiny encoder of each architecture, float32 on the CPU."""
    directory = tmp_path_factory.mktemp("encoders") / request.param
    return Encoder.load(write_tiny_encoder(directory, architecture=request.param), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def bundled() -> Encoder:
    """The model that comes with kbengine, as users get it."""
    return Encoder.load(device="cpu")


def some_passages() -> list[PassageText]:
    """Passages of many lengths, in no order, titled and untitled, one of them empty and two longer than a window."""
    texts = [*SENTENCES, "", "Paris", "  ", " ".join(SENTENCES), "river " * 300, "한국어 café 東京", *SENTENCES[:3]]
    return [PassageText("" if i % 3 == 0 else f"The {text[:30]}", text) for i, text in enumerate(texts)]


def test_a_passage_alone_gives_what_it_gives_in_a_padded_batch(encoder: Encoder) -> None:
    """Padding invariance and order: every array equal to 1e-5."""
    passages = some_passages()
    together = encoder.encode_passages(passages)
    assert len(together) == len(passages)
    for passage, vectors in zip(passages, together, strict=True):
        alone = encoder.encode_passages([passage])[0]
        for name in ("vectors", "filter_logits", "passage_vector", "starts", "ends"):
            np.testing.assert_allclose(getattr(vectors, name), getattr(alone, name), atol=1e-5, rtol=1e-5)
        assert vectors.n_encoded_tokens == alone.n_encoded_tokens


def test_passages_come_with_the_shapes_and_dtypes_promised(encoder: Encoder) -> None:
    """One row for every token of the text, none for title and special tokens."""
    passages = some_passages()
    for passage, found in zip(passages, encoder.encode_passages(passages), strict=True):
        t = len(encoder.tokenizer.ids([passage.text])[0])
        assert found.vectors.shape == (t, encoder.d)
        assert found.filter_logits.shape == (t, 2)
        assert found.starts.shape == found.ends.shape == (t,)
        assert found.vectors.dtype == found.filter_logits.dtype == found.passage_vector.dtype == np.float32
        assert found.starts.dtype == found.ends.dtype == np.int32
        assert float(np.linalg.norm(found.passage_vector)) == pytest.approx(1, abs=1e-5)
        assert np.isfinite(found.vectors).all()


def test_a_long_passage_gives_every_token_once(encoder: Encoder) -> None:
    """The tokens of the whole text at once, each with a vector from its most central window."""
    text = " ".join(SENTENCES)
    found = encoder.encode_passages([PassageText("The Amazon", text)])[0]
    whole = encoder.tokenizer.tokens([text])[0]
    assert found.starts.tolist() == whole.starts.tolist()
    assert found.ends.tolist() == whole.ends.tolist()
    assert len(found.vectors) == len(whole.ids) > encoder.config.max_passage_tokens
    assert found.n_encoded_tokens > len(whole.ids)
    title = len(encoder.tokenizer.ids(["The Amazon"])[0])
    room = encoder.config.max_passage_tokens - 3 - title
    # The first tokens see just what they would see were the text to end with the first window.
    end = int(whole.ends[room - 1])
    first = encoder.encode_passages([PassageText("The Amazon", text[:end])])[0]
    np.testing.assert_allclose(found.vectors[:5], first.vectors[:5], atol=1e-5)


def test_a_long_title_is_cut_and_still_leaves_room(encoder: Encoder) -> None:
    """At most 20 tokens of it are read, so that longer titles with the same beginning change nothing."""
    text = SENTENCES[0]
    cut, longer = encoder.encode_passages([PassageText("water " * 20, text), PassageText("water " * 90, text)])
    np.testing.assert_allclose(cut.vectors, longer.vectors, atol=1e-5)
    assert cut.n_encoded_tokens == longer.n_encoded_tokens == 23 + len(cut.vectors)


def test_the_title_is_read(encoder: Encoder) -> None:
    """Another title gives other vectors for the same text."""
    one, other = encoder.encode_passages([PassageText("Paris", SENTENCES[0]), PassageText("Berlin", SENTENCES[0])])
    assert float(np.abs(one.vectors - other.vectors).max()) > 1e-3


def test_queries_do_not_depend_on_their_batch(encoder: Encoder) -> None:
    """Alone, mixed and reversed: equal to 1e-5."""
    together = encoder.encode_queries(QUERIES * 9)
    backwards = encoder.encode_queries(QUERIES[::-1])
    for i, query in enumerate(QUERIES):
        alone = encoder.encode_queries([query])
        for name in ("start", "end", "passage", "n_tokens", "truncated"):
            expected = getattr(alone, name)[0]
            np.testing.assert_allclose(getattr(together, name)[i + len(QUERIES)], expected, atol=1e-5, rtol=1e-5)
            np.testing.assert_allclose(getattr(backwards, name)[-1 - i], expected, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together.passage, axis=1), 1, atol=1e-5)
    assert together.start.dtype == together.end.dtype == together.passage.dtype == np.float32
    assert together.n_tokens[0] == 8


def test_nothing_to_encode_gives_nothing(encoder: Encoder) -> None:
    """Empty lists are no error."""
    assert encoder.encode_passages([]) == []
    assert encoder.encode_queries([]).start.shape == (0, encoder.d)


def test_passages_are_the_same_to_the_bit_however_many_cores_encode_them(encoder):
    """Batches are computed side by side, each by one core."""
    passages = some_passages()
    before = torch.get_num_threads()
    found = []
    for n_threads in (1, 3):
        torch.set_num_threads(n_threads)
        found.append(encoder.encode_passages(passages))
    torch.set_num_threads(before)

    for alone, together in zip(*found, strict=True):
        assert np.array_equal(alone.vectors, together.vectors)
        assert np.array_equal(alone.filter_logits, together.filter_logits)


def test_progress_counts_every_token(encoder: Encoder) -> None:
    """What is reported batch by batch adds up to what went through the encoder."""
    counted: list[int] = []
    encoded = encoder.encode_passages(some_passages(), progress=counted.append)
    assert sum(counted) == sum(vectors.n_encoded_tokens for vectors in encoded)


def test_text_that_is_not_unicode_is_refused(encoder: Encoder) -> None:
    """In a passage as in a title."""
    for passage in (PassageText("", "bad\ud800"), PassageText("bad\ud800", "fine")):
        with pytest.raises(UsageError, match="surrogate"):
            encoder.encode_passages([passage])


def test_a_model_without_passage_vector_gives_zeros(tmp_path: Path) -> None:
    """Published DensePhrases checkpoints have no such signal."""
    config = tiny_config("three-tower")
    config = type(config).from_json({**config.to_json(), "passage_vector": "none"})
    write_checkpoint(tmp_path / "m", config, tiny_tokenizer_json(), tiny_weights(config), dtype="float32")
    encoder = Encoder.load(tmp_path / "m", device="cpu")
    assert not encoder.encode_passages([PassageText("", SENTENCES[0])])[0].passage_vector.any()
    assert not encoder.encode_queries([Question("Paris")]).passage.any()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_prepacked_weights_change_nothing_but_the_speed(tmp_path: Path, architecture: str) -> None:
    """float32 with and without oneDNN's layout: equal to 1e-5."""
    directory = write_tiny_encoder(tmp_path / "m", architecture=architecture)  # type: ignore[arg-type]  # of ARCHITECTURES
    packed = Encoder.load(directory, device="cpu", dtype="float32")
    plain = Encoder.load(directory, device="cpu", dtype="float32", prepack=False)
    ours, theirs = packed.encode_queries(QUERIES), plain.encode_queries(QUERIES)
    np.testing.assert_allclose(ours.start, theirs.start, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(ours.end, theirs.end, atol=1e-5, rtol=1e-5)
    for one, other in zip(packed.encode_passages(some_passages()), plain.encode_passages(some_passages()), strict=True):
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("prepack", [True, False])
def test_bfloat16_passages_are_close_to_float32_ones(tmp_path: Path, prepack: bool) -> None:
    """The token vectors point the same way, padded or not; queries are float32 all the same."""
    directory = write_tiny_encoder(tmp_path / "m")
    half = Encoder.load(directory, device="cpu", dtype="bfloat16", prepack=prepack)
    full = Encoder.load(directory, device="cpu", dtype="float32")
    for one, other in zip(half.encode_passages(some_passages()), full.encode_passages(some_passages()), strict=True):
        assert np.isfinite(one.vectors).all()
        if len(one.vectors):
            dots = (one.vectors * other.vectors).sum(axis=1)
            cosines = dots / np.linalg.norm(one.vectors, axis=1) / np.linalg.norm(other.vectors, axis=1)
            assert float(cosines.min()) > 0.99
        assert float(one.passage_vector @ other.passage_vector) > 0.999
    np.testing.assert_allclose(
        half.encode_queries(QUERIES).start, full.encode_queries(QUERIES).start, atol=1e-5, rtol=1e-5
    )


def test_an_encoder_of_a_model_in_training_is_a_copy_of_it(tmp_path: Path) -> None:
    """It equals the model once saved, has its fingerprint, and leaves it trainable and in training mode."""
    config = tiny_config()
    model = tiny_model(config).train()
    encoder = Encoder.from_model(model, tiny_tokenizer_json(), device="cpu", dtype="float32")
    write_checkpoint(tmp_path / "m", config, tiny_tokenizer_json(), model.state_dict(), dtype="float32")
    saved = Encoder.load(tmp_path / "m", device="cpu", dtype="float32")
    assert (encoder.fingerprint, encoder.passage_fingerprint) == (saved.fingerprint, saved.passage_fingerprint)
    before = encoder.encode_queries(QUERIES).start
    np.testing.assert_allclose(before, saved.encode_queries(QUERIES).start, atol=1e-6)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(encoder.encode_queries(QUERIES).start, before)


def test_a_model_is_found_by_name_or_directory(tmp_path: Path) -> None:
    """And by the name it then has; anything else is refused with what was tried."""
    directory = write_tiny_encoder(tmp_path / "mine")
    encoder = Encoder.load(str(directory), device="cpu")
    assert encoder.fingerprint == read_checkpoint(directory).fingerprint
    assert Encoder.load(encoder.name, device="cpu").fingerprint == encoder.fingerprint
    with pytest.raises(EncoderError, match=r"no encoder 'minilm'.*minilm-phrase.*nor a directory"):
        Encoder.load("minilm")
    (tmp_path / "empty").mkdir()
    with pytest.raises(EncoderError, match=r"config\.json is missing"):
        Encoder.load(tmp_path / "empty")


def test_devices_and_dtypes_are_checked(tmp_path: Path) -> None:
    """Names that do not exist, and hardware that is not there."""
    for name in ("gpu", "mps", "cuda:99"):
        with pytest.raises(InvalidOptionError, match="device is"):
            choose_device(name)
    with pytest.raises(InvalidOptionError, match="dtype is 'float64'"):
        choose_dtype("float64", torch.device("cpu"))
    for vendor, flags, expected in (
        ("AuthenticAMD", "fpu avx512_bf16 sse", True),
        ("GenuineIntel", "fpu avx512_bf16 amx_bf16", True),
        ("GenuineIntel", "fpu avx512_bf16", False),
        ("AuthenticAMD", "fpu avx512f", False),
    ):
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n")
        assert cpu_is_faster_in_bf16(tmp_path / "cpuinfo") is expected
    assert not cpu_is_faster_in_bf16(tmp_path / "absent")
    assert can_prepack(torch.float32) in (True, False)


def test_importing_query_inputs_needs_no_torch() -> None:
    """`kbengine` and the query inputs come without it."""
    code = "import sys, kbengine, kbengine.encoders.query_input; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.gpu
def test_an_accelerator_gives_the_same_vectors(tmp_path: Path) -> None:
    """float32 on CUDA and on the CPU agree; bfloat16 passages point the same way."""
    directory = write_tiny_encoder(tmp_path / "m")
    cpu, cuda = (Encoder.load(directory, device=device, dtype="float32") for device in ("cpu", "cuda"))
    half = Encoder.load(directory, device="cuda", dtype="bfloat16")
    np.testing.assert_allclose(cuda.encode_queries(QUERIES).start, cpu.encode_queries(QUERIES).start, atol=1e-3)
    passages = some_passages()
    for ours, theirs in zip(cuda.encode_passages(passages), cpu.encode_passages(passages), strict=True):
        np.testing.assert_allclose(ours.vectors, theirs.vectors, atol=1e-3)
    for ours, theirs in zip(half.encode_passages(passages), cpu.encode_passages(passages), strict=True):
        assert float(ours.passage_vector @ theirs.passage_vector) > 0.999


def best_phrase(encoder: Encoder, query: TaskInput, passages: list[PassageText]) -> str:
    """Return the phrase of at most ten tokens that scores highest."""
    vectors = encoder.encode_queries([query])
    best = (-np.inf, "")
    for passage, found in zip(passages, encoder.encode_passages(passages), strict=True):
        starts, ends = found.vectors @ vectors.start[0], found.vectors @ vectors.end[0]
        for i in range(len(starts)):
            for j in range(i, min(i + 10, len(starts))):
                phrase = passage.text[found.starts[i] : found.ends[j]]
                best = max(best, (float(starts[i] + ends[j]), phrase))
    return best[1]


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: Question("When was Marie Curie born?"), "7 November 1867"),
        (lambda: Question("Which river flows through Paris?"), "Seine"),
        (lambda: Slot("Marie Curie", "place of birth"), "Warsaw"),
        (lambda: Slot("Pierre Curie", "spouse"), "Marie"),
    ],
)
def test_the_bundled_model_finds_plausible_phrases(
    bundled: Encoder, make: Callable[[], TaskInput], answer: str
) -> None:
    """Questions and slots meet their answers among three passages."""
    passages = [
        PassageText(
            "Marie Curie",
            "Marie Curie was born in Warsaw, in what was then the Kingdom of Poland, on 7 November 1867."
            " She studied at the clandestine Flying University and began her scientific training there.",
        ),
        PassageText(
            "Paris",
            "Paris is the capital of France. The river Seine crosses the city, which has two million inhabitants.",
        ),
        PassageText(
            "Pierre Curie",
            "Pierre Curie was a French physicist, a pioneer in crystallography. In 1895 he married Marie Skłodowska.",
        ),
    ]
    assert answer in best_phrase(bundled, make(), passages)


def test_the_bundled_model_keeps_its_vectors(bundled: Encoder) -> None:
    """Known shape, a passage closer to its own question than another is, and a stable fingerprint."""
    assert (bundled.d, bundled.architecture, bundled.max_phrase_tokens) == (384, "shared-query", 20)
    assert bundled.limits.max_passage_tokens == 176
    assert bundled.name == "minilm-phrase"
    queries = bundled.encode_queries([Question("capital of France"), Question("broadleaf forest")])
    passages = bundled.encode_passages([PassageText("", SENTENCES[6]), PassageText("", SENTENCES[0])])
    scores = queries.passage @ np.stack([found.passage_vector for found in passages]).T
    assert scores[0, 0] > scores[0, 1]
    assert scores[1, 1] > scores[1, 0]
