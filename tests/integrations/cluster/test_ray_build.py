"""A build whose pieces are tasks of Ray: the same objects, workers killed or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kbengine.cluster.build import build_cluster
from kbengine.cluster.build_work import Piece
from kbengine.cluster.plan import PlanOptions
from kbengine.cluster.ray_build import RayWorkers
from kbengine.encoders.encoder import Encoder
from kbengine.errors import CorpusError
from storage.cluster import Cluster
from tests.kbengine.cluster.small_corpus import N, load_encoder, request_for, write_corpus


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The tiny encoder, which workers load from its directory."""
    return load_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def workers() -> Iterator[RayWorkers]:
    """Two workers of a runtime of this machine."""
    made = RayWorkers(2)
    yield made
    import ray  # not before: what is set for it is read when it is imported

    ray.shutdown()


class Killing:
    """Kills processes of workers while others work, so many times."""

    def __init__(self, inner: RayWorkers, kills: int) -> None:
        self.inner, self.kills = inner, kills

    def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
        """Yield what the workers do."""
        for piece, result in self.inner.work(pieces):
            found = subprocess.run(["pgrep", "-f", "ray::_done"], capture_output=True, text=True, check=False)
            if self.kills and found.stdout.split():
                os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
                self.kills -= 1
            yield piece, result


def contents(cluster: Cluster) -> list[tuple[str, ...]]:
    """Checksums of each shard's files."""
    return [tuple(file.sha256 for file in shard.files) for shard in cluster.manifest().shards]


def test_tasks_build_what_one_process_does_though_some_are_killed(
    encoder: Encoder, workers: RayWorkers, tmp_path: Path
) -> None:
    """The same objects, byte for byte; a worker that is killed costs its piece."""
    corpus = write_corpus(tmp_path / "corpus.jsonl", n=3 * N)
    one, other = (Cluster.create(f"file://{tmp_path}/{name}") for name in ("one", "other"))
    build_cluster(request_for(corpus), one, encoder=encoder)
    killing = Killing(workers, kills=2)
    build_cluster(request_for(corpus), other, encoder=encoder, workers=killing)
    assert contents(one) == contents(other)
    one.close()
    other.close()


def test_what_a_worker_raises_is_raised_here(encoder: Encoder, workers: RayWorkers, tmp_path: Path) -> None:
    """As if the work had been done in this process."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    corpus.write_text(corpus.read_text() + "not a record\n")
    cluster = Cluster.create(f"file://{tmp_path}/cluster")
    with pytest.raises(CorpusError, match="malformed JSON"):
        build_cluster(request_for(corpus), cluster, encoder=encoder, workers=workers)
    cluster.close()


def test_a_driver_that_is_killed_goes_on(encoder: Encoder, tmp_path: Path) -> None:
    """The command is killed when some chunks are there; run again it builds the rest."""
    corpus = write_corpus(tmp_path / "corpus.jsonl", n=3 * N)
    root = tmp_path / "cluster"
    assert encoder.directory is not None
    arguments = ["cluster", "build", str(corpus), "--to", f"file://{root}", "--chunk-bytes", "2000", "--shards", "2"]
    arguments += ["--workers", "2", "--encoder", str(encoder.directory), "--device", "cpu", "--dtype", "float32"]
    command = [sys.executable, "-m", "kbengine.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    driver = subprocess.Popen(command, env=environment, start_new_session=True)
    while driver.poll() is None and len(list(root.glob("builds/*/chunks/*.json"))) < 3:
        pass
    assert driver.poll() is None
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert not list(root.glob("generations/*"))
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert str(3 * N) in done.stdout
    whole = Cluster.create(f"file://{tmp_path}/whole")
    plan = PlanOptions(shards=2, chunk_bytes=2_000)
    build_cluster(request_for(corpus, plan=plan), whole, encoder=encoder)
    again = Cluster.open(f"file://{root}")
    assert contents(again) == contents(whole)
    whole.close()
    again.close()
