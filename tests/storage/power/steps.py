"""Operations on a knowledge base, each with what it makes of the content, and series of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from storage.alias_records import NewAlias
from storage.backup import back_up
from storage.creation import appearing, copy_without_segments
from storage.feedback_records import NewFeedback
from storage.filter_request import FilterRequest
from storage.index_kind import DEFAULT_KIND as KIND
from storage.reindexing import ReindexRequest
from storage.repair import repair
from storage.session import SEGMENT_DIRECTORY
from storage.tuned_files import delete_tuned, write_tuned
from storage.writer import KBWriter
from tests.storage.power.state import BACKUPS, OUT, State
from tests.storage.small_world import make_document, make_settings, reencode

Step = tuple[str, Callable[[Path], object], Callable[[State], State]]
LONG = " ".join(f"word{number}" for number in range(60))
FROZEN = Path(__file__).parents[2] / "frozen" / "kb-39f580c"


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


EMPTY: State = {"settings": (KIND, False, "{}"), "note": None}
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
    lambda state: state | {"settings": ("ivf-sq4", True, "{}")},
)
FILTER: Step = (
    "fewer tokens",
    writing(lambda writer: writer.reindex(ReindexRequest(filter=FilterRequest(keep_fraction=0.5)))),
    lambda state: state | {"settings": (KIND, False, '{"keep_fraction": 0.5, "threshold": null}')},
)
OUT_OF_PLACE: Step = (
    "reindex --out",
    lambda kb: reindex_out(kb, kb.parent / OUT),
    lambda state: state | {"out": _alone(state) | {"settings": ("ivf-sq4", True, "{}")}},
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
