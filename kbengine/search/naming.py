"""Names as a lexical signal: documents that a query names by another name than their title score as if by title.

A title that is a query's name as a whole adds `weight · idf` to the lexical score of each of its passages
(`storage.terms.name_term`). An alias adds the same, scaled by how likely it means the document and by how it is spelt:
`weight · idf · prior · FORM_FACTORS[form]`, idf being that of a name which only this document has, because the prior
already says how ambiguous it is. A document that is named in several ways gets the best one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from storage.terms import name_term

if TYPE_CHECKING:
    from storage.alias_records import AliasMatch
    from storage.folding import Form
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

FORM_FACTORS: Mapping[Form, float] = {"exact": 1.0, "case": 0.9, "accent": 0.8}
"""How much a match counts by its form: "US" is rather the country than the pronoun."""

Matches = Mapping[str, Sequence["AliasMatch"]]


def find_names(reader: KBReader, names: Sequence[str]) -> Matches:
    """Return the documents that each of the names can mean, in one look-up; nothing for a name without any."""
    distinct = list(dict.fromkeys(names))
    return {name: found for name, found in zip(distinct, reader.alias_matches(distinct), strict=True) if found}


def add_name_scores(
    scores: NDArray[np.float32], snapshot: Snapshot, names: Sequence[tuple[str, float]], matches: Matches
) -> None:
    """Add to the lexical scores of passages what their documents get for their other names.

    Args:
        scores: float32 (n_passages), changed in place.
        snapshot: what the scores are of.
        names: the query's names with their weights.
        matches: what `find_names` found, at least for these names.
    """
    best: dict[int, float] = {}
    for name, weight in names:
        for match in matches.get(name, ()):
            # A title's own row only stands in where the lexical index cannot find the title by this name.
            if match.sources == ("title",) and name_term(name) == name_term(match.alias) != name_term(""):
                continue
            value = weight * match.prior * FORM_FACTORS[match.form]
            best[match.document_id] = max(best.get(match.document_id, 0.0), value)
    for document_id, value in best.items():
        passages = snapshot.passages_of_document(document_id)
        if passages:
            idf = math.log1p((snapshot.n_passages - len(passages) + 0.5) / (len(passages) + 0.5))
            scores[passages.start : passages.stop] += np.float32(value * idf)
