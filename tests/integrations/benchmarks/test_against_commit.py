"""The comparison with a commit: two processes asked by turns, and what comes out of their times."""

from __future__ import annotations

from pathlib import Path

from benchmarks.against_commit import ROOT, Side, of_singles, ratios
from kbengine.encoders.encoder import Encoder
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder


def test_a_process_opens_asks_and_tells_its_memory(tmp_path: Path) -> None:
    """By the packages that it was given."""
    build_small_kb(tmp_path / "kb", Encoder.load(write_tiny_encoder(tmp_path / "encoder"), device="cpu"))
    with Side(ROOT) as process:
        opened = process("open", path=str(tmp_path / "kb"))
        assert set(opened) == {"import_s", "open_s"}
        assert process("facts")["documents"] == 10
        turn = process("single", texts=["Who wrote the novel?", "Where is Paris?"])
        figures = of_singles([turn, turn])
        assert figures["n"] == 4
        assert set(figures["stages_p50_ms"]) >= {"encode", "nearest", "rescore", "total"}
        assert process("batch", texts=["Paris", "Berlin"])["wall_ms"] > 0
        memory = process("memory")
        assert 0 < memory["anonymous"] <= memory["all"]


def test_ratios_say_how_many_times_as_fast_and_what_share_of_memory() -> None:
    """Then by now for times, now by then for bytes."""

    def side(ms: float, n_bytes: int) -> dict[str, object]:
        return {
            "single": {"p50_ms": ms, "processor_p50_ms": ms},
            "batch_of_64": {"wall_ms": ms, "processor_ms": ms},
            "memory_bytes": {"anonymous": n_bytes, "all": n_bytes},
            "open": {"open_s": ms},
        }

    found = ratios(side(30.0, 100), side(10.0, 40))
    assert found["single_times_as_fast"] == found["batch_times_as_fast"] == found["open_times_as_fast"] == 3.0
    assert found["memory_share"] == found["anonymous_memory_share"] == 0.4
