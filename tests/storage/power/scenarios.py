"""Series of operations on a knowledge base, each with what it makes of the content, run on a machine that remembers."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pysqlite3 import dbapi2

from storage.alias_records import NewAlias
from storage.backup import back_up, restore
from storage.backup_store import BackupStore
from storage.creation import appearing, copy_without_segments
from storage.errors import UnknownEncoderError
from storage.feedback_records import NewFeedback
from storage.filter_request import FilterRequest
from storage.operating_system import using
from storage.reader import KBReader
from storage.reindexing import ReindexRequest
from storage.repair import repair
from storage.session import SEGMENT_DIRECTORY
from storage.tuned_files import delete_tuned, tuned_weights, write_tuned
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.power.disk import MODES, Event, Mode, Tree, after_power_cut
from tests.storage.power.machine import Machine
from tests.storage.small_world import content, make_document, make_settings, reencode

State = dict[str, object]
Read = Callable[[Path], State]
Step = tuple[str, Callable[[Path], object], Callable[[State], State]]
LONG = " ".join(f"word{number}" for number in range(60))
OUT, BACKUPS, TOY = "out", "backups", "toy"
FROZEN = Path(__file__).parents[2] / "frozen" / "kb-39f580c"


def state_of(kb: Path) -> State:
    """Everything that was acknowledged of a knowledge base: texts compared with vectors, names, settings, encoders."""
    if not kb.exists():
        return {}
    with KBReader.open(kb, allow_incomplete=True) as reader:
        state: State = {f"text {doc_id}": texts for doc_id, texts in _texts(kb).items()}
        named = reader.list_aliases(source="manual", limit=100_000)
        state |= {f"alias {each.alias} of {each.doc_id}": True for each in named}
        state |= {f"feedback {each.input}": each.answer for each in reader.list_feedback()}
        state |= {"settings": (reader.settings.drops_vectors, json.dumps(reader.settings.filter, sort_keys=True))}
        state["note"] = reader.setting("note")
    with contextlib.suppress(UnknownEncoderError):
        state["encoder"] = tuned_weights(kb, "tuned")[1]
    return state


def state_beside(kb: Path) -> State:
    """What there is of a knowledge base and beside it: a copy that was reindexed, the newest backup, restored."""
    state = state_of(kb)
    if (kb.parent / OUT).exists():
        state["out"] = state_of(kb.parent / OUT)
        assert verify(kb.parent / OUT).clean
    if BackupStore(kb.parent / BACKUPS).generations():
        with tempfile.TemporaryDirectory() as scratch:
            restore(kb.parent / BACKUPS, Path(scratch) / "again")
            state["backup"] = state_of(Path(scratch) / "again")
    return state


def _texts(kb: Path) -> dict[str, tuple[str, ...]]:
    with KBReader.open(kb) as reader:
        settings = reader.settings
        if settings.encoder_name == TOY and not settings.drops_vectors and not settings.filter:
            return content(kb)
        reader.snapshot()  # every segment's checksum
        return {
            document.doc_id: tuple(passage.text for passage in passages)
            for document, passages in reader.iterate_documents()
        }


def writing(change: Callable[[KBWriter], object]) -> Callable[[Path], object]:
    """An operation of a writer that is opened for it."""

    def run(kb: Path) -> None:
        with KBWriter.open(kb, background_merging=False) as writer:
            change(writer)

    return run


def with_text(**texts: tuple[str, ...]) -> Callable[[State], State]:
    """What an addition makes of the state."""
    return lambda state: state | {f"text {doc_id}": found for doc_id, found in texts.items()}


def without(*keys: str) -> Callable[[State], State]:
    """What a deletion makes of it."""
    return lambda state: {key: value for key, value in state.items() if key not in keys}


def same(state: State) -> State:
    """What changes nothing that can be seen makes of it."""
    return state


def create(kb: Path) -> None:
    """Make the knowledge base."""
    KBWriter.create(kb, make_settings(ann={"exact_below_rows": 20, "nlist": 4})).close()


def break_and_repair(kb: Path) -> None:
    """Repair a segment that lost a bit; the damage itself is not recorded."""
    file = max((kb / "segments").glob("*.seg"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert repair(kb, reencode)


EMPTY: State = {"settings": (False, "{}"), "note": None}
CREATE: Step = ("create", create, lambda _state: dict(EMPTY))
ADD: Step = (
    "add",
    writing(lambda writer: writer.add([make_document("a", "amber", LONG), make_document("b", "basalt")])),
    with_text(a=("amber", LONG), b=("basalt",)),
)
REPLACE: Step = (
    "replace",
    writing(lambda writer: writer.add([make_document("a", "ash tree"), make_document("c", "cedar")])),
    with_text(a=("ash tree",), c=("cedar",)),
)
DELETE: Step = ("delete", writing(lambda writer: writer.delete(["b"])), without("text b"))
MERGE: Step = ("merge", writing(lambda writer: writer.merge_all()), same)
COMPACT: Step = ("compact", writing(lambda writer: writer.compact()), same)
PURGE: Step = ("purge", writing(lambda writer: writer.compact(purge=True)), same)
ALIAS: Step = (
    "alias",
    writing(lambda writer: writer.add_aliases([("a", NewAlias("Ash"))])),
    lambda state: state | {"alias Ash of a": True},
)
FEEDBACK: Step = (
    "feedback",
    writing(lambda writer: writer.add_feedback([NewFeedback("question", "Which tree?", "ash", "right")])),
    lambda state: state | {"feedback Which tree?": "ash"},
)
SETTING: Step = (
    "setting",
    writing(lambda writer: writer.set_setting("note", {"k": 1})),
    lambda state: state | {"note": {"k": 1}},
)
TUNE: Step = (
    "tune",
    lambda kb: write_tuned(kb, "tuned", {"n": 1}, b"w" * 9000),
    lambda state: state | {"encoder": b"w" * 9000},
)
RETUNE: Step = (
    "tune again",
    lambda kb: write_tuned(kb, "tuned", {"n": 2}, b"v" * 9000),
    lambda state: state | {"encoder": b"v" * 9000},
)
UNTUNE: Step = ("delete encoder", lambda kb: delete_tuned(kb, "tuned"), without("encoder"))
REPAIR: Step = ("repair", break_and_repair, same)
REINDEX: Step = (
    "reindex",
    writing(lambda writer: writer.reindex(ReindexRequest(ann={"kind": "ivf-sq4"}, drop_vectors=True))),
    lambda state: state | {"settings": (True, "{}")},
)
FILTER: Step = (
    "fewer tokens",
    writing(lambda writer: writer.reindex(ReindexRequest(filter=FilterRequest(keep_fraction=0.5)))),
    lambda state: state | {"settings": (False, '{"keep_fraction": 0.5, "threshold": null}')},
)
OUT_OF_PLACE: Step = (
    "reindex --out",
    lambda kb: reindex_out(kb, kb.parent / OUT),
    lambda state: state | {"out": _alone(state) | {"settings": (True, "{}")}},
)
BACK_UP: Step = (
    "back up",
    lambda kb: back_up(kb, kb.parent / BACKUPS, keep=1),
    lambda state: state | {"backup": _alone(state)},
)
MIGRATE: Step = ("migrate", lambda kb: KBWriter.open(kb, background_merging=False).close(), same)
FORGET: Step = (
    "delete after the migration",
    writing(lambda writer: writer.delete(["kesta-town"])),
    without("text kesta-town"),
)


def _alone(state: State) -> State:
    return {key: value for key, value in state.items() if key not in ("out", "backup")}


def reindex_out(kb: Path, out: Path) -> None:
    """What `kbengine reindex --out` does."""
    with appearing(out) as temporary:
        copy_without_segments(kb, temporary)
        with KBWriter.open(temporary, background_merging=False) as writer:
            request = ReindexRequest(ann={"kind": "ivf-sq4"}, drop_vectors=True)
            writer.reindex(request, source=kb / SEGMENT_DIRECTORY)


SERIES: dict[str, list[Step]] = {
    "documents": [CREATE, ADD, REPLACE, DELETE, MERGE, COMPACT, ALIAS, PURGE],
    "people": [CREATE, ADD, FEEDBACK, SETTING, TUNE, RETUNE, UNTUNE],
    "vectors": [CREATE, ADD, REPLACE, REPAIR, REINDEX],
    "tokens": [CREATE, ADD, REPLACE, FILTER],
    "copies": [CREATE, ADD, TUNE, BACK_UP, REPLACE, MERGE, BACK_UP, OUT_OF_PLACE],
    "an earlier version": [MIGRATE, FORGET],
}


@dataclass
class Recording:
    """A series that was run: what the machine saw, and the states after each step."""

    machine: Machine
    states: list[State]
    names: list[str]
    read: Read = state_of


def record(
    root: Path, steps: Iterable[Step], machine: type[Machine] = Machine, *, origin: Path | None = None
) -> Recording:
    """Run the steps one after the other on a new machine; its knowledge base is `root`/kb.

    Args:
        root: A directory that is not there.
        steps: What is done.
        machine: Which machine.
        origin: What the disk holds at first as `kb`, by default nothing.
    """
    root.mkdir(parents=True)
    if origin is not None:
        shutil.copytree(origin, root / "kb")
    states: list[State] = [state_of(root / "kb")]
    names = []
    with machine(root) as recorder, using(recorder):
        for number, (name, run, change) in enumerate(steps, start=1):
            run(root / "kb")
            recorder.ack(number)
            states.append(change(states[-1]))
            names.append(name)
    return Recording(recorder, states, names, state_beside)


def record_series(root: Path, name: str, machine: type[Machine] = Machine) -> Recording:
    """Run a series by its name."""
    return record(root, SERIES[name], machine, origin=FROZEN if SERIES[name][0] is MIGRATE else None)


def cuts_of(events: list[Event]) -> list[int]:
    """After how many events a power cut tells something: at acknowledgements, before and after syncs and new names."""
    places: set[int] = set()
    for number, event in enumerate(events):
        if event[0] in ("sync", "rename", "unlink", "truncate"):
            places |= {number, number + 1}
        elif event[0] == "ack":
            places.add(number + 1)
    return sorted(places)


@dataclass(frozen=True)
class Cuts:
    """Which power cuts are tried.

    Attributes:
        modes: What is left of what was not synced, in turn; at acknowledgements nothing.
        since: Only cuts after so many steps were acknowledged.
        stride: Only every so many-th place.
        random: So many places at random instead.
        seed: Where the turn begins, and of what is random.
    """

    modes: tuple[Mode, ...] = MODES
    since: int = 0
    stride: int = 1
    random: int = 0
    seed: int = 0


def states_after_cuts(recording: Recording, cuts: Cuts) -> Iterator[tuple[str, int, Tree]]:
    """What disks may hold: a description, how many steps were acknowledged, the tree; each tree once."""
    rng = np.random.default_rng(cuts.seed)
    events, modes = recording.machine.events, cuts.modes
    places = cuts_of(events)
    chosen: list[tuple[int, Mode]] = [(place, "drop") for place in places if events[place - 1][0] == "ack"]
    if cuts.random:
        places = [int(place) for place in rng.integers(1, len(events) + 1, size=cuts.random)]
    places = places[cuts.seed % cuts.stride :: cuts.stride]
    chosen += [(place, modes[(number + cuts.seed) % len(modes)]) for number, place in enumerate(places)]
    seen: set[int] = set()
    for place, mode in chosen:
        done = sum(event[0] == "ack" for event in events[:place])
        if done < cuts.since:
            continue
        tree = after_power_cut(recording.machine.before, events[:place], mode, rng)
        key = hash((done, tree.content()))
        if key not in seen:
            seen.add(key)
            yield f"event {place} of {len(events)}, {mode}, after {recording.names[done - 1 : done + 1]}", done, tree


def check_all(recording: Recording, scratch: Path, cuts: Cuts | None = None) -> int:
    """Restart after each cut; return how many. Raises what is wrong: something acknowledged lost, torn or damaged."""
    n = 0
    for where, done, tree in states_after_cuts(recording, cuts or Cuts()):
        directory = scratch / f"cut-{n}"
        tree.write(directory)
        try:
            check(directory / "kb", recording.states[done : done + 2], recording.read)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        shutil.rmtree(directory)
        n += 1
    return n


def check(kb: Path, allowed: list[State], read: Read = state_of) -> None:
    """Open it as after a restart; the state is one of those allowed, and nothing is wrong."""
    if kb.exists():
        KBWriter.open(kb, background_merging=False).close()
    seen = read(kb)
    assert seen in allowed, f"{seen.keys()} is none of {[state.keys() for state in allowed]}"
    if kb.exists():
        report = verify(kb)
        assert report.clean, report.findings
        with KBReader.open(kb) as reader:
            (newest, *_) = reader.info().last_commits
        with closing(dbapi2.connect(str(kb / "kb.sqlite"))) as connection:
            ((n_dead,),) = connection.execute("SELECT count(*) FROM documents WHERE dead_generation IS NOT NULL")
        assert newest.operation != "compact" or not n_dead, "a compaction was done by halves"
