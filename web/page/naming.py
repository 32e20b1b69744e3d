"""Other names of a document: shown on its page, added and taken away there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import redirect, request
from werkzeug.wrappers import Response as BaseResponse

from web.guards import FORM_TYPES, body
from web.page.answer_view import document_address
from web.service import current_service

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase
    from storage.alias_records import AliasRecord

SHOWN_NAMES = 100
_GIVEN_BY_PEOPLE = ("manual", "tsv", "redirect")


@dataclass(frozen=True)
class OtherName:
    """Another name of a document: where it is from, how probably it means it, and whether it can be taken away."""

    name: str
    sources: tuple[str, ...]
    prior: float
    removable: bool


def other_names(kb: KnowledgeBase, doc_id: str) -> tuple[OtherName, ...]:
    """Return the names of the document beside its title, each once."""
    records = kb.reader.list_aliases(doc_id=doc_id, limit=SHOWN_NAMES)
    by_name: dict[str, list[AliasRecord]] = defaultdict(list)
    for record in records:
        if record.source != "title":
            by_name[record.alias].append(record)
    return tuple(
        OtherName(
            name,
            tuple(record.source for record in found),
            found[0].prior,
            any(record.source in _GIVEN_BY_PEOPLE for record in found),
        )
        for name, found in by_name.items()
    )


@body(*FORM_TYPES)
def add_name() -> BaseResponse:
    """Give the document one more name and lead back to it."""
    doc_id = request.form.get("id", "")
    engine = current_service().engine
    engine.writes.run(engine.knowledge_base.add_aliases, doc_id, [request.form.get("name", "").strip()], replace=True)
    return redirect(f"{document_address(doc_id)}#names", 303)


@body(*FORM_TYPES)
def remove_name() -> BaseResponse:
    """Take a name from the document and lead back to it."""
    doc_id = request.form.get("id", "")
    engine = current_service().engine
    engine.writes.run(engine.knowledge_base.delete_aliases, doc_id, [request.form.get("name", "")])
    return redirect(f"{document_address(doc_id)}#names", 303)
