"""What a name can mean: documents by title or alias, each with a score from 0 to 1 that needs no statistics.

A name that is known exactly and means one document scores 1, among a hundred documents as among six million. The score
falls with the logarithm of the document's share where the name has several meanings, and by how the name is spelt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kbengine.search.naming import MAX_TITLED
from kbengine.search.records import Records
from kbengine.search.shard_requests import Look, LookRequest, Scope
from storage.alias_records import AliasMatch
from storage.folding import Form, matching_form, spelling
from storage.terms import name_term, names_of_title

if TYPE_CHECKING:
    from kbengine.search.shards import Shards
    from kbengine.search.term_statistics import TermStatistics

FORM_SCORES: Mapping[Form | None, float] = {"exact": 1.0, "case": 0.9, "accent": 0.8, None: 0.6}
"""What a name counts by how it is spelt; None is one that differs in its punctuation ("AC DC" for "AC/DC")."""
BARE_SHARE = 0.25
"""The share of a title without its qualifier ("Lincoln, Nebraska") against a whole one ("Lincoln") of the same name."""
LEAST_SHARE = 1e-12
"""At this share of a name's meanings nothing is left of its score, so a tenth of the meanings costs a twelfth: with
usual weights 2.5 units of score, which the text around a mention easily outweighs."""
BARE_IN_TEXT = 0.03
"""What a name in running text counts that documents have with a qualifier in brackets only: that they need one says
that the name alone mostly means something else ("New York (state)", "American (word)")."""
PLACE_IN_TEXT = 0.2
"""Likewise with a qualifier after a comma ("Washington, D.C."): so are places written in full, and called by the name
alone; a little, since they may have it from a person."""
COMMON_WORD_SCORE = 0.05
"""What a lower-case word counts that the document it may name writes with a capital letter: "reading" is rarely the
town."""
COMMON_MEANING_SCORE = 0.7
"""What a word with a capital letter inside a sentence counts that the document it may name writes small, where another
document of the name does not: "in Reading" is rarely the activity."""
OWN_PASSAGES = 4
"""Passages of a document in which is looked how it writes its own name."""


class NameStatistics(Protocol):
    """What all shards said about names: `kbengine.search.term_statistics.TermStatistics` has it, and `NamedBy`."""

    @property
    def matches(self) -> Mapping[str, Sequence[AliasMatch]]:
        """What each name can mean by other names of documents."""
        ...

    @property
    def titled(self) -> Mapping[str, Sequence[int]]:
        """The ids of the first documents that have each name as their title."""
        ...

    @property
    def titles(self) -> Mapping[int, str]:
        """The titles of these, and of those whose titles stand in for other names."""
        ...


@dataclass(frozen=True)
class NamedBy:
    """What a name can mean, looked up by itself."""

    matches: Mapping[str, Sequence[AliasMatch]]
    titled: Mapping[str, Sequence[int]]
    titles: Mapping[int, str]


def named_by(records: Records, name: str) -> NamedBy:
    """Return which documents have a name, to be given to `meanings_of`."""
    titled, matches = records.titled([name], limit=MAX_TITLED)[0], records.alias_matches([name])[0]
    ids = {*titled, *(match.document_id for match in matches if "title" in match.sources)}
    return NamedBy({name: matches}, {name: titled}, records.titles(ids) if ids else {})


@dataclass(frozen=True)
class _Claim:
    """How strongly a document claims a name, how well the spelling fits, and how it has the name.

    It has it unqualified (`is_whole`), or with a qualifier after a comma (`is_place`), or with one in brackets.
    """

    share: float
    form: float
    is_whole: bool
    is_place: bool = False


def meanings_of(
    statistics: NameStatistics,
    name: str,
    *,
    in_text: bool,
    is_inside: bool = False,
    writing_small: Callable[[Sequence[int], str], set[int]] | None = None,
) -> dict[int, float]:
    """Return the scores of the documents that the name can mean, by document id.

    Args:
        statistics: what is known about the name.
        name: as it was asked for.
        in_text: whether the name was taken out of running text, where a lower-case word may be no name at all.
        is_inside: whether it stands inside a sentence, where a capital letter says that it is one.
        writing_small: tells which of some documents write a word in lower case as the text does; needed for names in
            text.
    """
    claims = _titled(statistics, name)
    found = statistics.matches.get(name, ())
    # A title's own row stands in where the lexical index cannot find the title by this name.
    hidden = {match.document_id for match in found if match.sources == ("title",)} - claims.keys()
    for match in found:
        if match.sources == ("title",) and match.document_id not in hidden:
            continue
        title = statistics.titles.get(match.document_id, "")
        is_whole = match.sources != ("title",) or spelling(title) == match.alias
        known = claims.get(match.document_id, _Claim(0.0, 0.0, False))
        form = max(known.form, FORM_SCORES[match.form])
        claims[match.document_id] = replace(
            known, share=known.share + match.prior, form=form, is_whole=known.is_whole or is_whole
        )
    is_known = any(claim.is_whole for claim in claims.values())
    total = max(1.0, sum(claim.share for claim in claims.values()))
    scores = {}
    for document_id, claim in claims.items():
        score = claim.form * (1 - math.log(claim.share / total) / math.log(LEAST_SHARE))
        if score > 0:
            bare = PLACE_IN_TEXT if claim.is_place else BARE_IN_TEXT
            scores[document_id] = score if is_known or not in_text else score * bare
    if not in_text or writing_small is None or len(name.split()) != 1:
        return scores
    if name.islower():
        small = writing_small(list(scores), name)
        for document_id in scores.keys() - small:
            scores[document_id] *= COMMON_WORD_SCORE
    elif is_inside and name.istitle() and len(scores) > 1:
        small = writing_small(list(scores), name.lower())
        if small < scores.keys():
            for document_id in small:
                scores[document_id] *= COMMON_MEANING_SCORE
    return scores


def _titled(statistics: NameStatistics, name: str) -> dict[int, _Claim]:
    """Return the documents with the name as their title."""
    term = name_term(name)
    whole: dict[int, _Claim] = {}
    bare: dict[int, _Claim] = {}
    for document_id in statistics.titled.get(name, ()):
        title = statistics.titles.get(document_id)
        if title is None:
            continue
        spellings = names_of_title(title)
        if name_term(spellings[0]) == term:
            whole[document_id] = _Claim(1.0, FORM_SCORES[matching_form(name, spellings[0])], True)
        else:
            is_place = not title.rstrip().endswith(")")
            bare[document_id] = _Claim(1.0, FORM_SCORES[matching_form(name, spellings[-1])], False, is_place)
    exact = [claim for claim in whole.values() if claim.form > FORM_SCORES[None]]
    shared = BARE_SHARE if exact else 1 / max(1, len(bare))
    return whole | {document_id: replace(claim, share=shared) for document_id, claim in bare.items()}


def writing_it_small(
    shards: Shards, scope: Scope, statistics: TermStatistics, document_ids: Sequence[int], name: str
) -> set[int]:
    """Return the documents that write the word in lower case as a text does, not always with a capital letter.

    Args:
        shards: where their first passages are looked into.
        scope: what is searched.
        statistics: where the documents lie.
        document_ids: the documents.
        name: the word in lower case.
    """
    owners: list[list[int]] = [[] for _ in shards.members]
    passages: list[list[int]] = [[] for _ in shards.members]
    for document_id in document_ids:
        place = statistics.places.get(document_id)
        if place is not None:
            own = range(place.first, place.stop)[:OWN_PASSAGES]
            owners[place.shard] += [document_id] * len(own)
            passages[place.shard] += own
    looks = [Look(name, False, np.array(each, dtype=np.int64)) for each in passages]
    answers = shards.each(lambda number, shard: shard.look(LookRequest(scope, (looks[number],))))
    return {
        owner
        for own, answer in zip(owners, answers, strict=True)
        for owner, is_said in zip(own, answer.is_said[0].tolist(), strict=True)
        if is_said
    }
