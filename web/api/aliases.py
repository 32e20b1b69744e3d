"""/v1/aliases: other names of documents, by which mentions and subjects find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiflask import APIBlueprint
from flask import Response

from web.api.commits import committed
from web.guards import JSON_TYPES, access, body
from web.models.aliases import (
    AliasCommitted,
    AliasesToDelete,
    AliasList,
    AliasQuery,
    NamedDocuments,
    NameQuery,
    NewAliases,
)
from web.responses import json_response
from web.service import current_service

if TYPE_CHECKING:
    from storage.alias_changes import AliasChange

aliases = APIBlueprint("aliases", __name__, url_prefix="/v1", tag="Aliases")


@aliases.get("/aliases")
@aliases.input(AliasQuery, location="query")
@aliases.output(AliasList)
@access("read")
def list_aliases(query_data: AliasQuery) -> Response:
    """List other names of documents.

    All by name, those of one document, or those that begin in a certain way; a page at a time.
    """
    engine = current_service().engine
    page = engine.aliases(
        query_data.document or None, query_data.prefix or None, query_data.limit, query_data.page_token or None
    )
    listed = [
        {
            "alias": record.alias,
            "document": record.doc_id,
            "title": record.title,
            "source": record.source,
            "prior": record.prior,
            "uses": record.uses,
        }
        for record in page.aliases
    ]
    return json_response({"aliases": listed, "next_page_token": page.next_page_token, "generation": engine.generation})


@aliases.get("/aliases/matches")
@aliases.input(NameQuery, location="query")
@aliases.output(NamedDocuments)
@access("read")
def match_alias(query_data: NameQuery) -> Response:
    """Find the documents that a name can mean.

    Exact matches come before those that differ in case, and those before names that differ in accents.
    """
    engine = current_service().engine
    matches = [
        {
            "document": record.doc_id,
            "title": record.title,
            "alias": match.alias,
            "form": match.form,
            "prior": match.prior,
        }
        for record, match in engine.alias_matches(query_data.name)
    ]
    return json_response({"matches": matches, "generation": engine.generation})


@aliases.post("/aliases")
@aliases.input(NewAliases)
@aliases.output(AliasCommitted, 201, description="The names are durable, and used by every query from now on.")
@body(*JSON_TYPES)
@access("write")
def add_aliases(json_data: NewAliases) -> Response:
    """Give a document other names."""
    engine = current_service().engine

    def change(name: str | None) -> AliasChange:
        return engine.add_aliases(json_data.document, json_data.aliases, json_data.prior, json_data.replace, name)

    return committed(change, _facts, 201)


@aliases.post("/aliases:delete")
@aliases.input(AliasesToDelete)
@aliases.output(AliasCommitted, description="The names are not used any more.")
@body(*JSON_TYPES)
@access("write")
def delete_aliases(json_data: AliasesToDelete) -> Response:
    """Take names from a document."""
    engine = current_service().engine
    return committed(lambda name: engine.delete_aliases(json_data.document, json_data.aliases, name), _facts)


def _facts(change: AliasChange) -> dict[str, Any]:
    return {"aliases": change.aliases}
