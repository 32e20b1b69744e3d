"""Several processes train as one with the whole batch: gathered negatives with gradients, averaged gradients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.integrations.training.process_child import run
from tests.tiny_encoder import write_tiny_encoder
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[3]


def launch(world: int, init: Path, out: Path) -> None:
    """Run the child in several processes as a launcher does, and wait for them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(world):
        environment = os.environ | {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "tests.integrations.training.process_child", str(init), str(out)]
        children.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True))
    for child in children:
        _, errors = child.communicate(timeout=HANG_S)
        assert child.returncode == 0, errors


@pytest.mark.slow
def test_two_processes_with_half_the_batch_each_train_as_one(tmp_path):
    """Same losses in the log, same weights but for the order of sums."""
    init = write_tiny_encoder(tmp_path / "tiny")
    run(init, tmp_path / "one")
    launch(2, init, tmp_path / "two")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    logs = [
        [json.loads(line) for line in (tmp_path / f"{name}.run" / "log.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]

    for alone, together in zip(*logs, strict=True):
        assert alone["loss"] == pytest.approx(together["loss"], rel=1e-3)
        for part_name, part in alone["parts"].items():
            assert part == pytest.approx(together["parts"][part_name], rel=1e-3, abs=1e-4)
    for name, tensor in one.items():
        if name.endswith("key.bias"):
            continue  # no loss depends on it: its gradient is rounding noise, which Adam brings to full size
        np.testing.assert_allclose(tensor, two[name], atol=2e-4, err_msg=name)
