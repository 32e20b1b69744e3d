"""Other names of documents as they go into a knowledge base and come out of it: plain frozen records."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from storage.errors import InvalidOptionError
from storage.folding import Form, spelling

__all__ = [
    "ALIAS_SOURCES",
    "GIVEN_SOURCES",
    "MAX_ALIAS_CHARS",
    "OWN_SOURCES",
    "AliasMatch",
    "AliasRecord",
    "AliasSource",
    "AliasUse",
    "DocumentNames",
    "NewAlias",
    "NewLink",
    "Spelling",
    "alias_problem",
    "aliases_of_meta",
    "unstorable_character",
]

AliasSource = Literal["wikidata", "document", "redirect", "mention", "tsv", "manual", "anchor", "title"]
"""Where an alias is from. "anchor" is counted from links; "title" stands for titles that the lexical index cannot find
in folded letters. Both are made by storage itself, the others are given."""
ALIAS_SOURCES: tuple[AliasSource, ...] = get_args(AliasSource)
OWN_SOURCES: tuple[AliasSource, ...] = ("wikidata", "document")
"""Aliases that came with a document's text: a new version of the document brings its own."""
GIVEN_SOURCES: tuple[AliasSource, ...] = (*OWN_SOURCES, "redirect", "mention", "tsv", "manual")
"""Sources that a caller can name."""

MAX_ALIAS_CHARS = 300
"""A longer text is a sentence, not a name."""


@dataclass(frozen=True)
class NewAlias:
    """Another name of a document, to be stored.

    Attributes:
        alias: The name; blanks are trimmed.
        source: Where it is from, one of `GIVEN_SOURCES`.
        prior: Probability in (0, 1] that the name means this document; None has it follow from how often the name
            was used for it and for other documents.
        uses: How often the name was seen to be used for the document; added to the links that lead to it so.
    """

    alias: str
    source: AliasSource = "manual"
    prior: float | None = None
    uses: int = 0

    def __post_init__(self) -> None:
        problem = alias_problem(self.alias)
        if problem is not None:
            raise InvalidOptionError(f"alias {problem}")
        if self.source not in GIVEN_SOURCES:
            raise InvalidOptionError(f"alias source is {self.source!r}; wanted one of {', '.join(GIVEN_SOURCES)}")
        if self.prior is not None and not (math.isfinite(self.prior) and 0 < self.prior <= 1):
            raise InvalidOptionError(
                f"the prior of alias {self.alias!r} is {self.prior}; wanted a number above 0 up to 1, or none"
            )
        if self.uses < 0:
            raise InvalidOptionError(f"the uses of alias {self.alias!r} are {self.uses}; wanted 0 or more")
        object.__setattr__(self, "alias", spelling(self.alias))
        if self.prior is not None:
            object.__setattr__(self, "prior", float(self.prior))


@dataclass(frozen=True)
class NewLink:
    """The links of a document to one other with one text, to be stored with the document.

    Attributes:
        text: The anchor text; blanks are trimmed.
        target: The other document's id, or its title: it need not be there (yet).
        by_title: Whether `target` is a title.
        count: How many such links the document has.
    """

    text: str
    target: str
    by_title: bool = False
    count: int = 1

    def __post_init__(self) -> None:
        problem = alias_problem(self.text)
        if problem is not None:
            raise InvalidOptionError(f"anchor text {problem}")
        if not self.target or unstorable_character(self.target) is not None:
            raise InvalidOptionError(f"the target of a link is {self.target!r}; wanted a document's id or title")
        if self.count < 1:
            raise InvalidOptionError(f"the link {self.text!r} counts {self.count} times; wanted at least once")
        object.__setattr__(self, "text", spelling(self.text))


@dataclass(frozen=True)
class DocumentNames:
    """What a document was given besides its text, as it can be given again: aliases and links."""

    aliases: tuple[NewAlias, ...] = ()
    links: tuple[NewLink, ...] = ()


@dataclass(frozen=True)
class AliasRecord:
    """A stored alias of a live document.

    Attributes:
        document_id: The document.
        doc_id: Its id of the user.
        title: Its title.
        alias: The name.
        source: Where it is from.
        uses: How often this source has the name for the document: links with this text for "anchor", 0 if unknown.
        prior: Probability that the name, spelt so, means this document; the same for all its sources.
        given_prior: The prior that was given with it, None without one.
    """

    document_id: int
    doc_id: str
    title: str
    alias: str
    source: AliasSource
    uses: int
    prior: float
    given_prior: float | None

    @property
    def cursor(self) -> str:
        """Where the next page begins: what `list_aliases` takes as `after`."""
        return json.dumps([self.alias, self.document_id, self.source], ensure_ascii=False)


@dataclass(frozen=True)
class AliasMatch:
    """A document that a name can mean.

    Attributes:
        document_id: The document.
        alias: Its alias that matches.
        form: How it matches: "exact", "case" (folded), "accent" (and case folded).
        prior: Probability that the alias means this document.
        sources: Where the document has the alias from.
    """

    document_id: int
    alias: str
    form: Form
    prior: float
    sources: tuple[AliasSource, ...]


@dataclass(frozen=True)
class AliasUse:
    """A row of an alias: that a source has the name for a document.

    Attributes:
        document_id: The document.
        source: Where the alias is from.
        uses: How often this source has the name for the document.
        prior: The prior that was given with it, None without one.
    """

    document_id: int
    source: AliasSource
    uses: int
    prior: float | None


@dataclass(frozen=True)
class Spelling:
    """What is stored under one spelling of a name.

    Attributes:
        folded: Its accent key.
        alias: The spelling.
        n_rows: How many rows have it.
        weight: The uses of all of them, a document without any counting as one use: what priors are shares of.
        rows: The rows, by document and source; where there are too many, those with a given prior and the most uses.
    """

    folded: str
    alias: str
    n_rows: int
    weight: int
    rows: tuple[AliasUse, ...]


def alias_problem(text: str) -> str | None:
    """Return what makes a text no alias, as the end of a sentence that names it; None for an alias."""
    if not text.strip():
        return f"is {text!r}; wanted a name with at least one character that is not blank"
    if len(text) > MAX_ALIAS_CHARS:
        return f"{text[:40]!r}… has {len(text)} characters; wanted at most {MAX_ALIAS_CHARS}"
    wrong = unstorable_character(text)
    return None if wrong is None else f"{text[:40]!r} holds {wrong}; wanted plain text"


def aliases_of_meta(meta: Mapping[str, Any]) -> list[NewAlias]:
    """Return the aliases that a corpus left in a document's `meta`; what is no alias is passed over."""
    texts = meta.get("aliases")
    if not isinstance(texts, list):
        return []
    usable = [text for text in texts if isinstance(text, str) and alias_problem(text) is None]
    return [NewAlias(text, "wikidata") for text in dict.fromkeys(map(spelling, usable))]


def unstorable_character(text: str) -> str | None:
    """Return the first character that is no text, None when all are."""
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        # Zero-width joiners (Cf) belong to names; line feeds and tabs are blanks.
        if unicodedata.category(character) in ("Cc", "Cs") and not character.isspace():
            return f"the character U+{ord(character):04X}"
    return None
