"""The state of the listing of documents: what it shows, in which order, which page of it, and its addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import url_for

from storage.errors import InvalidOptionError
from web.page.narrowing import sort_choices

if TYPE_CHECKING:
    from storage.document_listing import FieldChoice

LISTED = 25
"""Documents on one page of the listing."""


@dataclass(frozen=True)
class DocumentListing:
    """What the listing shows.

    Attributes:
        query: Words that the documents hold; empty for all.
        where: A filter over their fields; empty for none.
        sort: As in `web.listing.browse_documents`.
        page: Which page, from 1.
        total: How many documents it has on all pages.
    """

    query: str = ""
    where: str = ""
    sort: str = ""
    page: int = 1
    total: int = 0

    @property
    def first(self) -> int:
        """Return how many documents stand on the pages before."""
        return (self.page - 1) * LISTED

    @property
    def last(self) -> int:
        """Return the number of the last page."""
        return max(-(-self.total // LISTED), 1)

    @property
    def summary(self) -> str:
        """Return which documents are shown, of how many."""
        end = min(self.first + LISTED, self.total)
        one = "1 document" if self.total == 1 else f"{self.total:,} documents"
        return one if self.last == 1 else f"{self.first + 1:,}–{end:,} of {one}"

    def address(self, page: int = 1) -> str:
        """Return the address of a page of the listing."""
        return url_for(
            "page.documents",
            q=self.query or None,
            where=self.where or None,
            sort=self.sort or None,
            page=page if page > 1 else None,
        )

    def orders(self, choices: Sequence[FieldChoice]) -> list[tuple[str, str]]:
        """Return the orders that there are: value and name."""
        orders = [
            ("", "Best match" if self.query else "Id"),
            ("title", "Title"),
            ("-added", "Newest first"),
            ("added", "Oldest first"),
            ("-passages", "Longest first"),
            *sort_choices(choices),
        ]
        return orders if self.sort in dict(orders) else [*orders, (self.sort, self.sort)]


def page_number(text: str) -> int:
    """Return the number of a page that an address gives; 1 where it gives none.

    Raises:
        InvalidOptionError: it is no such number.
    """
    if not text:
        return 1
    if re.fullmatch("[0-9]{1,9}", text, re.ASCII) and int(text) > 0:
        return int(text)
    raise InvalidOptionError(f"the page is {text[:20]!r}, wanted a number from 1")
