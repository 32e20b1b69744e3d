"""ONNX Runtime reads what torch reads, to the bit the same in any company, on any processor, from several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kbengine.encoders.encoder import PassageText
from kbengine.encoders.onnx_session import adds_int8_exactly, side_by_side
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput
from kbengine.reading.checkpoint import read_reader, write_reader
from kbengine.reading.inputs import reader_inputs
from kbengine.reading.onnx_forward import OnnxForward
from kbengine.reading.reader import Reader
from kbengine.reading.spans import PassageLogits
from tests.tiny_encoder import SENTENCES, tiny_tokenizer_json
from tests.tiny_reader import tiny_cross_encoder, tiny_reader_config, write_tiny_reader

QUERIES: list[TaskInput] = [
    Question("Where was the author born?"),
    Slot("Marie Curie", "place of birth"),
    Mention.from_parts("The capital of", "France", "is Paris."),
    Dialogue(["Who wrote the novel?", "A woman from Poland.", "When did she die?"]),
    Question("Who?"),
]
PASSAGES = [
    SENTENCES[1],
    PassageText("Marie Curie", SENTENCES[2]),
    PassageText("France", " ".join(SENTENCES)),
    SENTENCES[5],
    "",
]


def write_int8(directory: Path) -> Path:
    """Return the directory, which then holds the tiny reader as int8."""
    config = tiny_reader_config()
    write_reader(directory, config, tiny_tokenizer_json(), tiny_cross_encoder(config).state_dict(), dtype="int8")
    return directory


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny reader, stored as int8."""
    return write_int8(tmp_path_factory.mktemp("readers") / "int8")


@pytest.fixture(scope="module")
def reader(int8: Path) -> Reader:
    """The same in ONNX Runtime."""
    return Reader.load(int8, device="cpu")


def same(one: PassageLogits, other: PassageLogits) -> bool:
    """Return whether two results are the same to the bit."""
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("start", "end", "pairs"))
    return arrays and (one.no_answer, one.relevance) == (other.no_answer, other.relevance)


def test_onnx_reads_what_torch_reads(int8: Path, reader: Reader) -> None:
    """Within what rounding of tokens changes: a tenth of the logits' spread; the weights are the same."""
    torch_reader = Reader.load(int8, device="cpu", dtype="float32")
    assert (reader.runtime, torch_reader.runtime) == ("onnx", "torch")
    assert reader.fingerprint == torch_reader.fingerprint
    for ours, theirs in zip(reader.logits(QUERIES, PASSAGES), torch_reader.logits(QUERIES, PASSAGES), strict=True):
        np.testing.assert_allclose(ours.start, theirs.start, atol=0.06)
        np.testing.assert_allclose(ours.end, theirs.end, atol=0.06)
        np.testing.assert_allclose(ours.pairs, theirs.pairs, atol=0.06)
        assert ours.no_answer == pytest.approx(theirs.no_answer, abs=0.06)
        assert ours.relevance == pytest.approx(theirs.relevance, abs=0.06)


def test_a_pair_alone_gives_to_the_bit_what_it_gives_among_others(reader: Reader) -> None:
    """All four kinds of query, titled and untitled passages, one of them longer than a window, one empty."""
    together = reader.logits(QUERIES, PASSAGES)
    alone = [reader.logits([query], [passage])[0] for query, passage in zip(QUERIES, PASSAGES, strict=True)]
    assert all(map(same, together, alone))


def test_threads_share_a_reader(reader: Reader) -> None:
    """Eight calls at once, each of which has threads of its own."""
    expected = reader.logits(QUERIES, PASSAGES)
    with ThreadPoolExecutor(8) as executor:
        for found in executor.map(lambda _: reader.logits(QUERIES, PASSAGES), range(16)):
            assert all(map(same, found, expected))


def test_processors_without_exact_int8_products_give_the_same_bits(int8: Path, reader: Reader) -> None:
    """Weights as uint8 are multiplied by other instructions; sums are whole numbers either way."""
    checkpoint = read_reader(int8)
    inputs = reader_inputs(QUERIES, PASSAGES, reader.tokenizer, reader.config, truncate=False)
    signed, unsigned = (
        OnnxForward(checkpoint.stored, checkpoint.config, reader.tokenizer, signed=signed)(inputs)
        for signed in (adds_int8_exactly(), False)
    )
    for one, other in zip(signed, unsigned, strict=True):
        np.testing.assert_array_equal(one.logits, other.logits)


def test_a_token_of_zeros_is_no_division_by_zero(tmp_path: Path) -> None:
    """Weights of zero make every product's input zero: the logits are the biases."""
    config = tiny_reader_config()
    weights = {name: each.clone().zero_() for name, each in tiny_cross_encoder(config).state_dict().items()}
    weights["qa_outputs.bias"] += 0.5
    write_reader(tmp_path / "zero", config, tiny_tokenizer_json(), weights, dtype="int8")
    logits = Reader.load(tmp_path / "zero", device="cpu").logits(QUERIES[:1], PASSAGES[:1])[0]
    assert set(logits.start.tolist()) == {0.5}
    assert (logits.no_answer, logits.relevance) == (1.0, 0.0)


def test_what_computes_is_chosen_by_how_the_reader_is_stored(tmp_path: Path, int8: Path) -> None:
    """A reader in float32 is computed as it was trained, and in int8 when that is asked for."""
    plain = write_tiny_reader(tmp_path / "plain")
    assert Reader.load(plain, device="cpu").runtime == "torch"
    assert Reader.load(plain, device="cpu", runtime="onnx").runtime == "onnx"
    assert Reader.load(int8, device="cpu", runtime="torch").runtime == "torch"
    with pytest.raises(InvalidOptionError, match="dtype float32"):
        Reader.load(int8, device="cpu", dtype="float32", runtime="onnx")
    with pytest.raises(InvalidOptionError, match="'openvino', wanted one of auto, onnx, torch"):
        Reader.load(int8, device="cpu", runtime="openvino")  # type: ignore[arg-type]


def test_a_reader_in_onnx_is_saved_as_it_is(tmp_path: Path, int8: Path, reader: Reader) -> None:
    """Its weights are kept as they are stored."""
    reader.save(tmp_path / "again", dtype="float32")
    before, after = read_reader(int8).weights, read_reader(tmp_path / "again").weights
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_progress_counts_every_input(reader: Reader) -> None:
    """Windows of long passages too."""
    seen: list[int] = []
    reader.logits(QUERIES, PASSAGES, progress=seen.append)
    assert sum(seen) == len(reader_inputs(QUERIES, PASSAGES, reader.tokenizer, reader.config, truncate=False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2 avx512f avx512_vnni\n", True),
        ("flags\t\t: fpu avx2 avx_vnni\n", True),
        ("flags\t\t: fpu avx2 avx512f avx512bw\n", False),
        ("processor\t: 0\n", False),
    ],
)
def test_processors_are_told_by_their_flags(tmp_path: Path, text: str, expected: bool) -> None:
    """What Linux lists; unknown is no."""
    (tmp_path / "cpuinfo").write_text(text)
    assert adds_int8_exactly(tmp_path / "cpuinfo") is expected
    assert adds_int8_exactly(tmp_path / "missing") is False


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_side_by_side_are_in_order(n_threads: int) -> None:
    """Whatever finishes first; nothing in, nothing out."""
    assert list(side_by_side(lambda n: n * n, range(20), n_threads=n_threads)) == [n * n for n in range(20)]
    assert list(side_by_side(lambda n: n, [], n_threads=n_threads)) == []
