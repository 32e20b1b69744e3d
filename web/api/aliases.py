"""/v1/aliases: other names of documents, by which mentions and subjects find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiflask import APIBlueprint
from flask import Response

from web.api.commits import committed
from web.endings import CHANGES, READS, may_end_in
from web.guards import JSON_TYPES, access, body
from web.listing import list_aliases as list_names
from web.models.aliases import (
    AliasCommitted,
    AliasesToDelete,
    AliasList,
    AliasQuery,
    NamedDocuments,
    NameQuery,
    NewAliases,
)
from web.responses import fields_of, json_response
from web.service import current_service

if TYPE_CHECKING:
    from storage.alias_changes import AliasChange

aliases = APIBlueprint("aliases", __name__, url_prefix="/v1", tag="Aliases")


@aliases.get("/aliases")
@aliases.input(AliasQuery, location="query")
@aliases.output(AliasList)
@may_end_in(400, 404, of=READS)
@access("read")
def list_aliases(query_data: AliasQuery) -> Response:
    """List other names of documents.

    All by name, those of one document, or those that begin in a certain way; a page at a time.
    """
    kb = current_service().engine.knowledge_base
    page = list_names(
        kb, query_data.document, query_data.prefix, query_data.limit, query_data.page_token, query_data.source
    )
    names = ("alias", "title", "source", "prior", "uses")
    listed = [fields_of(record, *names, document="doc_id") for record in page.items]
    return json_response({"aliases": listed, "next_page_token": page.next_page_token, "generation": kb.generation})


@aliases.get("/aliases/matches")
@aliases.input(NameQuery, location="query")
@aliases.output(NamedDocuments)
@may_end_in(of=READS)
@access("read")
def match_alias(query_data: NameQuery) -> Response:
    """Find the documents that a name can mean.

    Exact matches come before those that differ in case, and those before names that differ in accents.
    """
    kb = current_service().engine.knowledge_base
    matches = [
        fields_of(record, "title", document="doc_id") | fields_of(match, "alias", "form", "prior")
        for record, match in kb.alias_matches(query_data.name)
    ]
    return json_response({"matches": matches, "generation": kb.generation})


@aliases.post("/aliases")
@aliases.input(NewAliases)
@aliases.output(AliasCommitted, 201, description="The names are durable, and used by every query from now on.")
@body(*JSON_TYPES)
@may_end_in(404, of=CHANGES)
@access("write")
def add_aliases(json_data: NewAliases) -> Response:
    """Give a document other names."""
    kb, wanted = current_service().engine.knowledge_base, json_data
    options = {"prior": wanted.prior, "replace": wanted.replace}
    return committed(kb.add_aliases, wanted.document, wanted.aliases, facts=_facts, status=201, **options)


@aliases.post("/aliases:delete")
@aliases.input(AliasesToDelete)
@aliases.output(AliasCommitted, description="The names are not used any more.")
@body(*JSON_TYPES)
@may_end_in(404, of=CHANGES)
@access("write")
def delete_aliases(json_data: AliasesToDelete) -> Response:
    """Take names from a document."""
    kb = current_service().engine.knowledge_base
    return committed(kb.delete_aliases, json_data.document, json_data.aliases, facts=_facts)


def _facts(change: AliasChange) -> dict[str, Any]:
    return {"aliases": change.aliases}
