"""The links of a KILT page: anchor texts and the pages they lead to, by id where the dump names it, else by title."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from kbengine.corpus.fields import as_object, get_optional_text, kind_of
from kbengine.errors import CorpusError
from storage.alias_records import NewLink, alias_problem, unstorable_character
from storage.folding import spelling


def page_links(anchors: object) -> tuple[NewLink, ...]:
    """Return the page's links, those with one text and target as one with their count.

    Left out are links out of Wikipedia or to a place in the page itself, texts that are no name (blank, or longer than
    any name is) and targets that are no text. Every other target is kept, in the corpus or not.

    Args:
        anchors: The field `anchors`: a list of objects, or an object of lists (the Hugging Face copy).
    """
    if not anchors:
        return ()
    counts: Counter[tuple[str, str, bool]] = Counter()
    for index, anchor in enumerate(_each(anchors)):
        try:
            text = get_optional_text(anchor, "text")
            target = _target(anchor)
        except CorpusError as e:
            raise CorpusError(f"'anchors'[{index}]: {e.message}") from e
        if text is None or target is None or alias_problem(text) is not None or unstorable_character(target[0]):
            continue
        counts[(spelling(text), *target)] += 1
    return tuple(NewLink(text, target, by_title, count) for (text, target, by_title), count in counts.items())


def _each(anchors: object) -> Iterator[Mapping[str, object]]:
    if isinstance(anchors, dict):
        columns = {key: value for key, value in anchors.items() if isinstance(value, list)}
        length = max((len(column) for column in columns.values()), default=0)
        if any(len(column) != length for column in columns.values()):
            raise CorpusError("'anchors' holds lists of different lengths, wanted one entry a link in each")
        for index in range(length):
            yield {key: column[index] for key, column in columns.items()}
    elif isinstance(anchors, list):
        for index, anchor in enumerate(anchors):
            yield as_object(anchor, f"'anchors'[{index}]")
    else:
        raise CorpusError(f"'anchors' is {kind_of(anchors)}, wanted a list of links")


def _target(anchor: Mapping[str, object]) -> tuple[str, bool] | None:
    """Return the page that a link leads to and whether it is named by title; None for a link that leads to no page."""
    page_id = anchor.get("wikipedia_id")
    if isinstance(page_id, str) or type(page_id) is int:  # not bool
        page_id = str(page_id).strip()
        if page_id not in ("", "-1"):
            return page_id, False
    title = get_optional_text(anchor, "wikipedia_title")
    if title is None or not title.strip():
        href = get_optional_text(anchor, "href") or ""
        if "://" in href:
            return None
        title = unquote(href)
    title = " ".join(title.replace("_", " ").partition("#")[0].split()).removeprefix(":")
    # Wikipedia takes the first letter of a link in either case; titles have it as a capital.
    capital = title[:1].upper()
    return (capital + title[1:] if len(capital) == 1 else title, True) if title else None
