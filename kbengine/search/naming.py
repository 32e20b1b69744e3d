"""Names as a lexical signal: documents that a query names by another name than their title score as if by title.

A title that is a query's name as a whole adds `weight · idf` to the lexical score of each of its passages
(`storage.terms.name_term`). An alias adds the same, scaled by how likely it means the document and by how it is spelt:
`weight · idf · prior · FORM_FACTORS[form]`, idf being that of a name which only this document has, because the prior
already says how ambiguous it is. A document that is named in several ways gets the best one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.folding import Form

FORM_FACTORS: Mapping[Form, float] = {"exact": 1.0, "case": 0.9, "accent": 0.8}
"""How much a match counts by its form: "US" is rather the country than the pronoun."""
MAX_TITLED = 64
"""Documents looked at that a name is the title of, with or without a qualifier: those that were added first."""
