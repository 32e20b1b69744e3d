"""/v1/documents: add, read, list and delete; a change is answered when it is durable and searchable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiflask import APIBlueprint
from flask import Response, request
from pydantic_core import to_json

from web import limits
from web.api.commits import committed
from web.bodies import read_body
from web.endings import CHANGES, READS, may_end_in
from web.guards import JSON_TYPES, LINES_TYPES, access, body
from web.listing import list_documents as list_page
from web.listing import stored_document
from web.models.documents import (
    AddQuery,
    Committed,
    DocumentIds,
    DocumentList,
    DocumentsToAdd,
    FullDocument,
    ListQuery,
)
from web.request_context import current_request
from web.responses import fields_of, json_response, not_modified, tagged
from web.result_cache import cache_tag, request_key
from web.service import current_service
from web.submitting import accepted, new_job_folder, receive, submit

if TYPE_CHECKING:
    from storage.records import Commit, DocumentRecord

AS_A_JOB: dict[int | str, Any] = {
    202: {
        "description": "The body is large: the job that adds the documents.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobBody"}}},
    }
}

documents = APIBlueprint("documents", __name__, url_prefix="/v1", tag="Documents")


@documents.get("/documents")
@documents.input(ListQuery, location="query")
@documents.output(DocumentList)
@may_end_in(400, of=READS)
@access("read")
def list_documents(query_data: ListQuery) -> Response:
    """List documents.

    All by id, a page at a time; with `q` those that hold its words, best first; with `where` those of them that pass a
    filter. `sort` gives them in another order.
    """
    kb, asked = current_service().engine.knowledge_base, query_data
    page = list_page(kb, asked.q, asked.limit, asked.page_token, asked.where, asked.sort)
    listed = [_summary(record) for record in page.items]
    return json_response({"documents": listed, "next_page_token": page.next_page_token, "generation": kb.generation})


@documents.post("/documents")
@documents.input(AddQuery, location="query")
@documents.output(Committed, 201, description="The documents are durable, and in every query from now on.")
@documents.doc(responses=AS_A_JOB)
@body(*JSON_TYPES, *LINES_TYPES, max_bytes=limits.BULK_BODY_BYTES, model=DocumentsToAdd)
@may_end_in(of=CHANGES)
@access("write")
def add_documents(query_data: AddQuery) -> Response:
    """Add documents.

    One as an object, several as `{"documents": […]}` or as JSON lines: all of them are added, or none. A document
    whose id is there already is replaced; with `replace=false` none is added then, and the answer is 409.
    A body of more than 256 KiB becomes a job (202), which adds its documents piece by piece.
    """
    wanted = [each.mapping() for each in DocumentsToAdd.read(read_body(lines_as="documents"))]
    current_request().facts["documents"] = len(wanted)
    if len(request.get_data()) > limits.DIRECT_BYTES:
        with new_job_folder(current_service()) as folder:
            receive(folder, "documents.jsonl", (_line(each) for each in wanted))
            title = f"{len(wanted):,} {'document' if len(wanted) == 1 else 'documents'}"
            return accepted(submit(folder, "upload", title, {"replace": query_data.replace, "format": "plain"}))
    add = current_service().engine.knowledge_base.add
    return committed(add, wanted, facts=_facts, status=201, replace=query_data.replace)


@documents.post("/documents:delete")
@documents.input(DocumentIds)
@documents.output(Committed, description="The documents are in no answer any more.")
@body(*JSON_TYPES, max_bytes=limits.BULK_BODY_BYTES)
@may_end_in(404, of=CHANGES)
@access("write")
def delete_documents(json_data: DocumentIds) -> Response:
    """Delete several documents.

    All of them are deleted, or none when one is not there.
    """
    current_request().facts["documents"] = len(json_data.ids)
    return committed(current_service().engine.knowledge_base.delete, json_data.ids, facts=_facts)


@documents.get("/documents/<path:doc_id>")
@documents.output(FullDocument)
@may_end_in(404, of=READS)
@access("read")
def get_document(doc_id: str) -> Response:
    """Read a document with its passages."""
    kb = current_service().engine.knowledge_base
    tag = cache_tag(request_key("document", doc_id), kb.generation, "")
    known = not_modified(tag)
    if known is not None:
        return known
    stored = stored_document(kb, doc_id)
    record = stored.record
    names = ("ordinal", "section", "char_offset", "text")
    passages = [fields_of(passage, *names, id="passage_id") for passage in stored.passages]
    return tagged(json_response(_summary(record) | {"passages": passages}), tag)


@documents.delete("/documents/<path:doc_id>")
@documents.output(Committed, description="The document is in no answer any more.")
@may_end_in(404, of=CHANGES)
@access("write")
def delete_document(doc_id: str) -> Response:
    """Delete a document."""
    return committed(current_service().engine.knowledge_base.delete, [doc_id], facts=_facts)


def _line(document: dict[str, Any]) -> bytes:
    return to_json({name: value for name, value in document.items() if value is not None}) + b"\n"


def _facts(commit: Commit) -> dict[str, Any]:
    return fields_of(commit, added="documents_added", replaced="documents_replaced", deleted="documents_deleted")


def _summary(record: DocumentRecord) -> dict[str, Any]:
    names = {"id": "doc_id", "passages": "passage_count", "added_in": "born_generation"}
    return fields_of(record, "title", "url", **names) | {"meta": dict(record.meta)}
