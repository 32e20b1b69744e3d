"""The power fails while a knowledge base is brought in step with a folder: it is done, or doing it again does it."""

from __future__ import annotations

from pathlib import Path

from kbengine.build.builder import CorpusOptions
from kbengine.build.sync import SyncOptions, sync
from kbengine.errors import BuildIncompleteError
from storage.verify import verify
from tests.kbengine.synthetic_kb import WordEncoder
from tests.storage.power.scenarios import Cuts, check_all, record
from tests.storage.power.state import Read, State, state_of
from tests.storage.power.steps import Step

TEXTS = ({"a": "Amber is old.", "b": "Basalt is dark."}, {"a": "Ash is grey.", "c": "Cedar is red."}, {"c": "Cedar."})


def in_step(kb: Path, folder: Path) -> None:
    """What `kbengine sync` does."""
    corpus = CorpusOptions((folder,), source="notes")
    sync(kb, SyncOptions(corpus, delete_most=True), encoder=WordEncoder)


def test_a_power_cut_loses_nothing_that_was_synced(tmp_path: Path) -> None:
    """Made, changed, and files gone: what was told of is there; what was not is there after another call."""
    steps: list[Step] = []
    folders: list[Path] = []
    for number, texts in enumerate(TEXTS):
        folder = tmp_path / f"folder-{number}"
        folder.mkdir()
        for name, text in texts.items():
            (folder / f"{name}.md").write_text(text, "utf-8")
        wanted: State = {f"text {name}.md": (text,) for name, text in texts.items()}
        steps.append((f"sync {number}", lambda kb, folder=folder: in_step(kb, folder), lambda _, wanted=wanted: wanted))
        folders.append(folder)

    def read(kb: Path) -> State:
        return {name: texts for name, texts in state_of(kb).items() if name.startswith("text ")}

    def check(kb: Path, allowed: list[State], _read: Read) -> None:
        before, after = allowed[0], allowed[-1]
        try:
            seen = read(kb)
        except BuildIncompleteError:
            seen = before  # it was just being made
            assert not before
        for name in before.keys() | after.keys() | seen.keys():
            assert seen.get(name) in (before.get(name), after.get(name)), name
        in_step(kb, folders[recording.states.index(after) - 1])
        assert read(kb) == after
        assert verify(kb).clean

    recording = record(tmp_path / "run", steps)
    assert read(tmp_path / "run" / "kb") == recording.states[-1]
    recording.read, recording.check = read, check
    assert check_all(recording, tmp_path, Cuts(stride=24)) > 5
