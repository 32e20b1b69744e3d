"""One document of a DensePhrases dump, and how its tokens become those of passages.

A document is one text, paragraphs joined by ` [PAR] `, and one list of tokens, window after window. Neighbouring
windows of a long paragraph overlap, and their common tokens are in the list twice; here each comes out once, from the
window in which it is more central.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import CorruptError

PARAGRAPH_MARK = " [PAR] "
_SPACE = ord(" ")

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DumpDocument:
    """A document as the dump has it: T tokens, of which K are stored with a vector.

    Attributes:
        key: Its number in the dump, as text.
        title: Of the article.
        context: Its paragraphs, joined by ` [PAR] `.
        starts: int32 (T,), first character of each token in `context`.
        ends: int32 (T,), the character after its last.
        kept: int64 (K,), which tokens are stored, rising.
        vectors: float32 (K, d).
        window_lengths: int64 (w,), tokens of each window; None where the dump does not tell.
    """

    key: str
    title: str
    context: str
    starts: Int32
    ends: Int32
    kept: Int64
    vectors: Float32
    window_lengths: Int64 | None = None

    def __post_init__(self) -> None:
        n = len(self.starts)
        problems = {
            f"{n} token starts and {len(self.ends)} ends": len(self.ends) != n,
            f"{len(self.kept)} kept tokens and {len(self.vectors)} vectors": len(self.kept) != len(self.vectors),
            f"kept tokens beyond its {n}": bool(len(self.kept))
            and not 0 <= int(self.kept.min()) <= self.kept.max() < n,
            "kept tokens that do not rise": bool((np.diff(self.kept) <= 0).any()),
            "vectors that are not finite": not bool(np.isfinite(self.vectors).all()),
        }
        for problem, holds in problems.items():
            if holds:
                raise CorruptError(f"document {self.key} ({self.title!r}) has {problem}; copy the dump again")


@dataclass(frozen=True, eq=False)
class DumpPassage:
    """A paragraph of a document with its own tokens; offsets count in `text`.

    Attributes:
        ordinal: Its number in the document, from 1.
        text: Of the paragraph.
        rows: int64 (t,), rows of the document's vectors that are its kept tokens.
        ordinals: uint32 (t,), their places among all tokens of the paragraph.
        starts: int32 (t,).
        ends: int32 (t,).
        n_tokens: All tokens of the paragraph, each once.
    """

    ordinal: int
    text: str
    rows: Int64
    ordinals: NDArray[np.uint32]
    starts: Int32
    ends: Int32
    n_tokens: int


@dataclass
class TokenCounts:
    """What became of a dump's tokens."""

    tokens: int = 0
    repeated: int = 0
    misplaced: int = 0
    kept: int = 0
    left_out: int = 0
    """Vectors that were not taken over: of repeated or misplaced tokens."""


@dataclass
class _Paragraph:
    ordinal: int
    begin: int
    end: int
    tokens: list[Int64] = field(default_factory=list)
    """Token numbers, one array for each window that lies in it."""


def dump_passages(document: DumpDocument, counts: TokenCounts) -> list[DumpPassage]:
    """Return the document's paragraphs that have text, each token once, and bring the counts up to date."""
    counts.tokens += len(document.starts)
    paragraphs = _paragraphs(document.context)
    words = _word_numbers(document)
    begins = np.array([paragraph.begin for paragraph in paragraphs], dtype=np.int64)
    ends = np.array([paragraph.end for paragraph in paragraphs], dtype=np.int64)
    own = np.searchsorted(begins, document.starts, side="right") - 1
    placed = (own >= 0) & (document.ends > document.starts) & (document.ends <= ends[np.maximum(own, 0)])
    counts.misplaced += int((~placed).sum())
    for window in _windows(document, own, words):
        for number in np.unique(own[window][placed[window]]).tolist():
            paragraphs[number].tokens.append(window[placed[window] & (own[window] == number)])
    row_of = np.full(len(document.starts), -1, dtype=np.int64)
    row_of[document.kept] = np.arange(len(document.kept))
    passages = []
    for paragraph in paragraphs:
        text = document.context[paragraph.begin : paragraph.end]
        if not text.strip():
            continue
        tokens = _joined(paragraph.tokens, document, words)
        counts.repeated += sum(len(each) for each in paragraph.tokens) - len(tokens)
        passages.append(_passage(document, paragraph, text, tokens, row_of))
    kept = sum(len(passage.rows) for passage in passages)
    counts.kept += kept
    counts.left_out += len(document.kept) - kept
    return passages


def _paragraphs(context: str) -> list[_Paragraph]:
    paragraphs = []
    begin = 0
    for ordinal, text in enumerate(context.split(PARAGRAPH_MARK), start=1):
        paragraphs.append(_Paragraph(ordinal, begin, begin + len(text)))
        begin += len(text) + len(PARAGRAPH_MARK)
    return paragraphs


def _word_numbers(document: DumpDocument) -> Int64:
    """Return for each token the number of the blank-separated word that it begins in, int64 (T,)."""
    codes = np.frombuffer(document.context.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    blanks = np.append(0, np.cumsum(codes == _SPACE))
    return blanks[np.clip(document.starts, 0, len(codes))].astype(np.int64)


def _windows(document: DumpDocument, own: Int64, words: Int64) -> list[Int64]:
    """Return the token numbers of each window, in order.

    Where the dump does not tell, a window begins where a token stands in a word before the one it follows. Offsets
    inside a word tell nothing: they were found by searching for the piece's text, and where that failed they are the
    whole word's. So an overlap within one word is not seen there, and its tokens stay twice.
    """
    n = len(document.starts)
    lengths = document.window_lengths
    if lengths is not None and int(lengths.sum()) == n:
        cuts = np.cumsum(lengths)[:-1]
    else:
        cuts = np.flatnonzero((words[1:] < words[:-1]) | (own[1:] != own[:-1])) + 1
    return [window for window in np.split(np.arange(n, dtype=np.int64), cuts) if len(window)]


def _joined(windows: list[Int64], document: DumpDocument, words: Int64) -> Int64:
    """Return the tokens of a paragraph from those of its windows: common ones once, half of them from each side."""
    joined = np.zeros(0, dtype=np.int64)
    for window in windows:
        n_common = _overlap(joined, window, document, words)
        n_before = n_common - n_common // 2
        joined = np.concatenate([joined[: len(joined) - n_common + n_before], window[n_before:]])
    return joined


def _overlap(before: Int64, after: Int64, document: DumpDocument, words: Int64) -> int:
    """Return how many of the last tokens of one window are the first of the next.

    At the edge of a window offsets are found with less context: there only the words are compared.
    """
    if not len(before) or not len(after):
        return 0
    candidates = len(before) - np.flatnonzero(words[before] == words[after[0]])
    for candidate in candidates[candidates <= len(after)].tolist():
        n = int(candidate)
        left, right = before[len(before) - n :], after[:n]
        same = words[left] == words[right]
        same &= (document.starts[left] < document.ends[right]) & (document.starts[right] < document.ends[left])
        same[:-1] &= document.starts[left[:-1]] == document.starts[right[:-1]]
        same[1:] &= document.ends[left[1:]] == document.ends[right[1:]]
        if same.all():
            return n
    return 0


def _passage(document: DumpDocument, paragraph: _Paragraph, text: str, tokens: Int64, row_of: Int64) -> DumpPassage:
    rows = row_of[tokens]
    kept = np.flatnonzero(rows >= 0)
    numbers = tokens[kept]
    return DumpPassage(
        ordinal=paragraph.ordinal,
        text=text,
        rows=rows[kept],
        ordinals=kept.astype(np.uint32),
        starts=(document.starts[numbers] - paragraph.begin).astype(np.int32),
        ends=(document.ends[numbers] - paragraph.begin).astype(np.int32),
        n_tokens=len(tokens),
    )
