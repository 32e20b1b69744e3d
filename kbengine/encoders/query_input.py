"""The token ids that each kind of query becomes for an encoder. No torch here.

question      `[CLS] text [SEP]`
slot filling  `[CLS] subject [SEP] relation [SEP]`
mention       `[CLS] mention [SEP] left context [ mention ] right context [SEP]`, brackets being ordinary tokens
dialogue      `[CLS] newest turn | the one before | … [SEP]`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kbengine.encoders.config import QueryLimits
from kbengine.errors import EmptyQueryError, QueryError, QueryTooLongError, UsageError
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput

if TYPE_CHECKING:
    from kbengine.encoders.tokenization import TextTokenizer

CONTEXT_TOKENS = 32
"""Tokens of context read on each side of a mention, as trained."""
# Far more characters than that many tokens have: a mention may come with the whole document around it.
_CONTEXT_CHARS = 4096


class QueryIds(NamedTuple):
    """One encoded query text: its token ids with the special ones, and whether some of the text was left out."""

    ids: list[int]
    truncated: bool


def query_ids(
    inputs: Sequence[TaskInput], tokenizer: TextTokenizer, limits: QueryLimits, *, truncate: bool = False
) -> list[QueryIds]:
    """Return the token ids of each query, in order.

    The context of a mention and the older turns of a dialogue are cut to what fits, which `truncated` tells. Questions,
    slots and mentions that are too long themselves are refused, or cut when `truncate` is set.

    Raises:
        EmptyQueryError: a query has no text, or none that makes a token.
        QueryTooLongError: a query is longer than its limit, and `truncate` is not set.
        QueryError: an input is of none of the four kinds, or not valid Unicode.
    """
    parts = [_parts(value, i, limits) for i, value in enumerate(inputs)]
    texts = [text for texts in parts for text in texts]
    try:
        open_ids, close_ids, bar_ids, *ids = tokenizer.ids(["[", "]", "|", *texts])
    except UsageError as e:
        raise QueryError(e.message) from e
    assembler = _Assembler(tokenizer.cls_id, tokenizer.sep_id, open_ids, close_ids, bar_ids, limits, truncate)
    found: list[QueryIds] = []
    position = 0
    for i, value in enumerate(inputs):
        of_parts = ids[position : position + len(parts[i])]
        position += len(parts[i])
        found.append(assembler.assemble(i, value, of_parts))
    return found


def _parts(value: TaskInput, i: int, limits: QueryLimits) -> list[str]:
    """Return the texts of a query to tokenise, those that must not be empty checked."""
    match value:
        case Question(text):
            return [_filled(text, i, "question", "text")]
        case Slot(subject, relation):
            return [_filled(subject, i, "slot", "subject"), _filled(relation, i, "slot", "relation")]
        case Mention(left=left, name=name, right=right):
            return [_filled(name, i, "mention", "mention"), left[-_CONTEXT_CHARS:], right[:_CONTEXT_CHARS]]
        case Dialogue(turns):
            if isinstance(turns, str):
                raise QueryError(f"query {i} (dialogue): turns is one string, wanted a list of turns, oldest first")
            spoken = [turn for turn in reversed(turns) if turn.strip()]
            if not spoken:
                raise EmptyQueryError(f"query {i} (dialogue) has no turn with text; give at least one")
            # Every turn takes two tokens or more, so that no turn beyond these could be read; one more shows the cut.
            return spoken[: limits.dialogue // 2 + 1]
    raise QueryError(f"query {i} is a {type(value).__name__}, wanted Question, Slot, Mention or Dialogue")


def _filled(text: str, i: int, kind: str, field: str) -> str:
    if not isinstance(text, str):
        raise QueryError(f"query {i} ({kind}): {field} is {type(text).__name__}, wanted a string")
    if not text.strip():
        raise EmptyQueryError(f"query {i} ({kind}): {field} is empty; give its text")
    return text


@dataclass(frozen=True)
class _Assembler:
    """Puts the token ids of a query's parts together."""

    cls_id: int
    sep_id: int
    open_ids: list[int]
    close_ids: list[int]
    bar_ids: list[int]
    limits: QueryLimits
    truncate: bool

    def assemble(self, i: int, value: TaskInput, parts: list[list[int]]) -> QueryIds:
        match value:
            case Question():
                return self._question(i, parts[0])
            case Slot():
                return self._slot(i, parts[0], parts[1])
            case Mention():
                cut = len(value.left) > _CONTEXT_CHARS or len(value.right) > _CONTEXT_CHARS
                return self._mention(i, *parts, cut=cut)
            case Dialogue():
                return self._dialogue(i, parts)

    def _question(self, i: int, text: list[int]) -> QueryIds:
        self._require(text, i, "question", "text")
        limit = self.limits.question
        too_long = self._too_long(i, "question", len(text) + 2, limit)
        return QueryIds([self.cls_id, *text[: limit - 2], self.sep_id], too_long)

    def _slot(self, i: int, subject: list[int], relation: list[int]) -> QueryIds:
        self._require(subject, i, "slot", "subject")
        self._require(relation, i, "slot", "relation")
        limit = self.limits.slot_filling
        too_long = self._too_long(i, "slot", len(subject) + len(relation) + 3, limit)
        if too_long:
            # The relation is the question; it loses its end only when it alone takes more than half the room.
            room = limit - 3
            relation = relation[: max(room - len(subject), room // 2)]
            subject = subject[: room - len(relation)]
        return QueryIds([self.cls_id, *subject, self.sep_id, *relation, self.sep_id], too_long)

    def _mention(self, i: int, mention: list[int], left: list[int], right: list[int], *, cut: bool) -> QueryIds:
        self._require(mention, i, "mention", "mention")
        limit = self.limits.entity_linking
        n_fixed = 3 + len(self.open_ids) + len(self.close_ids)
        too_long = self._too_long(i, "mention (read twice)", 2 * len(mention) + n_fixed, limit)
        mention = mention[: (limit - n_fixed) // 2]
        room = limit - n_fixed - 2 * len(mention)
        # Each side gets its 32 tokens where there is room, else half of it and what the other leaves over.
        n_left, n_right = min(len(left), CONTEXT_TOKENS), min(len(right), CONTEXT_TOKENS)
        n_left = min(n_left, max(room // 2, room - n_right))
        n_right = min(n_right, room - n_left)
        truncated = too_long or cut or n_left < len(left) or n_right < len(right)
        context = [*left[len(left) - n_left :], *self.open_ids, *mention, *self.close_ids, *right[:n_right]]
        return QueryIds([self.cls_id, *mention, self.sep_id, *context, self.sep_id], truncated)

    def _dialogue(self, i: int, turns: list[list[int]]) -> QueryIds:
        joined: list[int] = []
        for turn in turns:
            if turn:
                joined += [*self.bar_ids, *turn] if joined else turn
        self._require(joined, i, "dialogue", "turns")
        room = self.limits.dialogue - 2
        return QueryIds([self.cls_id, *joined[:room], self.sep_id], len(joined) > room)

    def _require(self, ids: list[int], i: int, kind: str, field: str) -> None:
        if not ids:
            raise EmptyQueryError(f"query {i} ({kind}): {field} has no visible character; give its text")

    def _too_long(self, i: int, kind: str, n_tokens: int, limit: int) -> bool:
        if n_tokens > limit and not self.truncate:
            raise QueryTooLongError(
                f"query {i}: this {kind} has {n_tokens} tokens, the encoder reads at most {limit} (special ones "
                "included); shorten it, or allow cutting it with truncate=True"
            )
        return n_tokens > limit
