"""Answers that were recorded while a knowledge base was sound, to be compared with those that it gives later.

Checksums say that bytes are what was written. This says that what is made of them is, too: the same tokens, passages
and words are found, with the same scores. Asked are vectors and texts of the knowledge base itself, evenly spread over
it, and every row is looked at, so that an index that was made anew changes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from storage import schema
from storage.durable import read_error, write_durably
from storage.errors import CorruptError, FormatTooNewError
from storage.reader import KBReader
from storage.snapshot import Snapshot

__all__ = ["RECORDED_NAME", "Comparison", "RecordedAnswers", "compare_answers", "read_answers", "record_answers"]

RECORDED_NAME = "recorded-answers.json"
_FORMAT = 1
_QUERIES, _FOUND, _MAX_CHARS = 8, 10, 200
# What changes no answer that every row was looked at for. BM25 counts the dead until merging leaves them out.
_KEEPING = frozenset({"repair", "setting", "build", "alias", "feedback"})
_KEEPING_VECTORS = _KEEPING | {"merge", "compact"}
# Sums are rounded otherwise on other processors; far less than what one wrong byte does to a score.
_TOLERANCE = 1e-3

Found = list[list[tuple[int, float]]]
"""For each query what was found, the best first: an id and its score."""


@dataclass(frozen=True)
class RecordedAnswers:
    """Queries and what was found for them.

    Attributes:
        generation: The commit that was asked.
        vectors: float32 (n, d), asked of tokens and of passages.
        texts: Asked of the words.
        found: By what was asked: "tokens", "passages", "words".
    """

    generation: int
    vectors: NDArray[np.float32]
    texts: tuple[str, ...]
    found: dict[str, Found]

    @property
    def digest(self) -> str:
        """Hex SHA-256 of what was found."""
        return hashlib.sha256(json.dumps(self.found, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Comparison:
    """What asking again came to.

    Attributes:
        asked: How many queries were asked; 0 when documents changed since they were recorded, or there are none.
        differing: What is found otherwise, in words.
    """

    asked: int
    differing: tuple[str, ...] = ()


def record_answers(path: str | Path) -> RecordedAnswers:
    """Ask a knowledge base queries made of its own vectors and texts, and store what it finds beside it.

    Args:
        path: Its directory; verify it first: what is recorded counts as right from now on.
    """
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        live = np.flatnonzero(snapshot.live_passages)
        chosen = live[_spread(len(live))]
        counts = snapshot.token_counts[chosen]
        rows = (snapshot.first_rows[chosen] + counts // 2)[counts > 0]
        vectors = snapshot.vectors(rows.astype(np.int64)) if len(rows) else np.zeros((0, snapshot.d), dtype=np.float32)
        stored = reader.passage_texts(snapshot.passage_ids[chosen])
        texts = tuple(stored[int(passage)][:_MAX_CHARS] for passage in snapshot.passage_ids[chosen])
        found = _ask(snapshot, vectors, texts)
        recorded = RecordedAnswers(snapshot.generation, vectors, texts, found)
    facts: dict[str, Any] = {
        "format": _FORMAT,
        "generation": recorded.generation,
        "vectors": base64.b64encode(vectors.astype("<f4").tobytes()).decode(),
        "d": max(vectors.shape[1], 1),
        "texts": texts,
        "found": found,
        "digest": recorded.digest,
    }
    text = json.dumps(facts | {"checksum": _checksum(facts)}, ensure_ascii=False) + "\n"
    write_durably(Path(path) / RECORDED_NAME, [text.encode()], replace=True)
    return recorded


def read_answers(path: str | Path) -> RecordedAnswers | None:
    """Return what is recorded of a knowledge base, None when nothing is.

    Raises:
        CorruptError: The file is not what was written.
    """
    file = Path(path) / RECORDED_NAME
    try:
        facts: dict[str, Any] = json.loads(file.read_text("utf-8"))
        checksum = facts.pop("checksum")
        if facts["format"] > _FORMAT:
            raise FormatTooNewError(f"{file} was written by a newer kbengine: upgrade kbengine")
        if checksum != _checksum(facts):
            raise ValueError("its checksum is of something else")
        vectors = np.frombuffer(base64.b64decode(facts["vectors"]), dtype="<f4").reshape(-1, facts["d"])
        found = {
            name: [[(int(item), float(score)) for item, score in answers] for answers in each]
            for name, each in facts["found"].items()
        }
        return RecordedAnswers(facts["generation"], vectors.astype(np.float32), tuple(facts["texts"]), found)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise read_error(error, file) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(
            f"{file} is not what was written ({error}); nothing else needs it: 'kbengine verify --record' makes it anew"
        ) from error


def compare_answers(path: str | Path, connection: Connection) -> Comparison:
    """Ask the recorded queries again and compare, where nothing that was committed since changes answers.

    Args:
        path: The knowledge base.
        connection: Of its database, to ask what was committed.

    Raises:
        CorruptError: What is recorded is damaged, or the knowledge base is.
    """
    recorded = read_answers(path)
    if recorded is None:
        return Comparison(0)
    table = schema.generations
    later = connection.execute(select(table.c.operation).where(table.c.generation > recorded.generation)).scalars()
    operations = set(later)
    if operations - _KEEPING_VECTORS:
        return Comparison(0)
    with KBReader.open(path, allow_incomplete=True) as reader:
        again = _ask(reader.snapshot(), recorded.vectors, () if operations - _KEEPING else recorded.texts)
    differing = [
        f"query {number} of {name} finds {_told(seen)}, recorded was {_told(wanted)}"
        for name in sorted(again)
        for number, (seen, wanted) in enumerate(zip(again[name], recorded.found[name], strict=False), start=1)
        if not _same(seen, wanted)
    ]
    return Comparison(sum(map(len, again.values())), tuple(differing))


def _ask(snapshot: Snapshot, vectors: NDArray[np.float32], texts: tuple[str, ...]) -> dict[str, Found]:
    found: dict[str, Found] = {"tokens": [], "passages": [], "words": []}
    if len(vectors):
        scores, rows = snapshot.search_tokens(vectors, _FOUND, exact=True)
        for each, of in zip(scores, rows, strict=True):
            ids = snapshot.token_ids_of_rows(of[of >= 0])
            found["tokens"].append(_ranked(ids, each[of >= 0]))
        scores, passages = snapshot.search_passages(vectors, _FOUND, exact=True)
        for each, of in zip(scores, passages, strict=True):
            found["passages"].append(_ranked(snapshot.passage_ids[of[of >= 0]], each[of >= 0]))
    for text in texts:
        lexical = snapshot.lexical_scores(text)
        best = np.argsort(-lexical, kind="stable")[:_FOUND]
        best = best[lexical[best] > 0]
        found["words"].append(_ranked(snapshot.passage_ids[best], lexical[best]))
    return found


def _ranked(ids: NDArray[np.int64], scores: NDArray[np.float32]) -> list[tuple[int, float]]:
    return [(int(item), round(float(score), 6)) for item, score in zip(ids, scores, strict=True)]


def _same(seen: list[tuple[int, float]], wanted: list[tuple[int, float]]) -> bool:
    """Tell whether both are the same ids with the same scores; of nearly equal scores the order does not count."""
    if len(seen) != len(wanted):
        return False
    by_id = dict(seen)
    last = wanted[-1][1] if wanted else 0.0
    by_rank = (_near(one, other) for (_, one), (_, other) in zip(seen, wanted, strict=True))
    kept = (_near(by_id[item], score) if item in by_id else _near(score, last) for item, score in wanted)
    return all(by_rank) and all(kept)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _TOLERANCE * max(1.0, abs(other))


def _told(found: list[tuple[int, float]]) -> str:
    return ", ".join(f"{item} ({score:g})" for item, score in found[:3]) or "nothing"


def _spread(n: int) -> NDArray[np.int64]:
    """Return places evenly spread over n of them."""
    return np.unique(np.linspace(0, max(n - 1, 0), min(_QUERIES, n)).astype(np.int64))


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
