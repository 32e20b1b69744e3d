"""The documents: listed, searched, read, added, deleted, and brought back."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from kbengine.corpus.document import CorpusDocument
from kbengine.errors import CorpusError, UnknownDocumentError
from kbengine.span import Span
from storage.alias_records import MAX_ALIAS_CHARS
from storage.errors import InvalidOptionError, UsageError
from storage.field_rows import shown_fields
from web import limits
from web.guards import FORM_TYPES, body
from web.listing import browse_documents, document_copy, stored_document
from web.page.answer_view import document_address, safe_source
from web.page.document_listing import LISTED, DocumentListing, page_number
from web.page.naming import other_names
from web.page.narrowing import narrow_fields
from web.page.page_state import Deleted, current_page_state
from web.page.passages import Piece, pieces
from web.page.problems import problem_of
from web.page.search_form import SearchForm
from web.page.uploads import ACCEPTED, pasted_document, uploaded_documents
from web.request_context import page_root
from web.service import current_service
from web.submitting import CHUNK_BYTES, file_name, new_job_folder, receive, submit

if TYPE_CHECKING:
    from werkzeug.datastructures import FileStorage

    from storage.records import DocumentRecord, PassageRecord
    from web.engine import Engine
    from web.jobs.job import Job

_MARK = re.compile(r"(\d{1,9}):(\d{1,9})-(\d{1,9})", re.ASCII)


def documents() -> Response:
    """Return the listing: all documents by id, or those that match the words looked for."""
    return _listing()


@body(*FORM_TYPES, max_bytes=limits.UPLOAD_BYTES)
def add() -> BaseResponse:
    """Add documents and lead to them, or show the form again with what is wrong in it; large files become a job."""
    engine = current_service().engine
    request.max_form_memory_size = limits.BULK_BODY_BYTES
    form = request.form
    files = [file for file in request.files.getlist("files") if file.filename]
    if files and (request.content_length or 0) > limits.DIRECT_BYTES:
        return redirect(url_for("page.jobs", _anchor=_as_a_job(files, "replace" in form).id), 303)
    try:
        added = uploaded_documents(files)
        if form.get("title", "").strip() or form.get("text", "").strip() or not files:
            added.append(_pasted(engine))
        known = [document.doc_id for document in added if _is_taken(engine, document.doc_id)]
        if known and "replace" not in form:
            raise CorpusError(
                f"the knowledge base has a document {known[0]!r} already; give another id, or tick 'Replace'"
            )
        token = form.get("operation", "")
        name = f"page-{token}" if token.isalnum() and len(token) <= 64 else None
        commit = engine.writes.run(engine.knowledge_base.add, added, op_id=name)
    except UsageError as error:
        problem = problem_of(error)
        return _listing(problem=problem, form=dict(form.items()), status=problem.status)
    if len(added) == 1:
        return redirect(f"{document_address(added[0].doc_id)}&added={commit.generation}", 303)
    return redirect(url_for("page.documents", added=len(added), at=commit.generation), 303)


def document() -> Response:
    """Return the page of one document: what is stored of it, and how to delete it."""
    kb = current_service().engine.knowledge_base
    stored = stored_document(kb, request.args.get("id", ""))
    added = request.args.get("added", "")
    mark = _mark(request.args.get("mark", ""))
    values = {
        "section": "page.documents",
        "document": stored.record,
        "passages": [(each, _marked(each, mark)) for each in stored.passages],
        "source": safe_source(stored.record.url),
        "fields": shown_fields(stored.record.meta),
        "names": other_names(kb, stored.record.doc_id),
        "max_name": MAX_ALIAS_CHARS,
        "added_at": added if added.isascii() and added.isdigit() else None,
        "back": _back(request.args.get("back", "")),
        "ask_about": _ask_about(stored.record.title),
    }
    return make_response(render_template("page/document.html", **values))


@body(*FORM_TYPES)
def delete() -> BaseResponse:
    """Delete the document and lead back; it can be brought back for a while."""
    engine = current_service().engine
    document = document_copy(engine.knowledge_base, request.form.get("id", ""))
    commit = engine.writes.run(engine.knowledge_base.delete, [document.doc_id])
    token = current_page_state().recently_deleted.keep(Deleted(document, commit.generation))
    back = _back(request.form.get("back", ""))
    return redirect(url_for("page.documents", deleted=token, back=back or None), 303)


@body(*FORM_TYPES)
def restore() -> BaseResponse:
    """Store the deleted document again and lead to it."""
    engine, kept = current_service().engine, current_page_state().recently_deleted
    token = request.form.get("token", "")
    deleted = kept.find(token)
    if deleted is None:
        raise UnknownDocumentError("the deleted document is not kept any more; add it anew on the documents page")
    if _is_taken(engine, deleted.document.doc_id):
        raise CorpusError(f"there is a document {deleted.document.doc_id!r} again already; nothing was brought back")
    commit = engine.writes.run(engine.knowledge_base.add, [deleted.document])
    kept.forget(token)
    return redirect(f"{document_address(deleted.document.doc_id)}&added={commit.generation}", 303)


def _listing(*, problem: Any = None, form: dict[str, str] | None = None, status: int = 200) -> Response:
    service = current_service()
    query = request.args.get("q", "").strip()[: limits.TEXT_CHARS]
    where = request.args.get("where", "").strip()
    knowledge_base = service.engine.knowledge_base
    listing, refused = DocumentListing(query, where, request.args.get("sort", "").strip()[: limits.TITLE_CHARS]), None
    choices = knowledge_base.reader.field_choices()
    records: tuple[DocumentRecord, ...] = ()
    try:
        listing = replace(listing, page=page_number(request.args.get("page", "")))
        found = browse_documents(knowledge_base, query, listing.sort, where, listing.first, LISTED)
        listing, records = replace(listing, total=found.total), found.records
    except InvalidOptionError as error:
        refused = error.message
    token = request.args.get("deleted", "")
    added = request.args.get("added", "")
    values = {
        "section": "page.documents",
        "query": query,
        "where": where,
        "refused": refused,
        "documents": [(each, document_address(each.doc_id), _told_fields(each, listing.sort)) for each in records],
        "listing": listing,
        "orders": listing.orders(choices),
        "narrowed": narrow_fields(choices, where, lambda changed: replace(listing, where=changed or "").address()),
        "max_where": limits.ADDRESS_FILTER_CHARS,
        "total": service.engine.info().documents,
        "problem": problem,
        "form": form or {},
        "operation": secrets.token_hex(16),
        "accepted": ",".join(ACCEPTED),
        "max_title": limits.TITLE_CHARS,
        "max_id": limits.ID_CHARS,
        "deleted": current_page_state().recently_deleted.find(token) if token else None,
        "deleted_token": token,
        "added": int(added) if added.isascii() and added.isdigit() and len(added) < 10 else None,
        "back": _back(request.args.get("back", "")),
    }
    return make_response(render_template("page/documents.html", **values), 400 if refused else status)


def _told_fields(record: DocumentRecord, sort: str) -> list[tuple[str, str]]:
    """Return what a line of the listing tells of a document: the field that the listing is sorted by."""
    return [(name, value) for name, value in shown_fields(record.meta) if name == sort.removeprefix("-")]


def _pasted(engine: Engine) -> CorpusDocument:
    form = request.form
    return pasted_document(
        form.get("title", ""),
        form.get("text", ""),
        url=form.get("url", ""),
        doc_id=form.get("id", ""),
        fields=form.get("fields", ""),
        is_taken=lambda doc_id: _is_taken(engine, doc_id),
    )


def _as_a_job(files: list[FileStorage], replace: bool) -> Job:
    """Return the job that adds the files, and the pasted text where there is one."""
    names = []
    with new_job_folder(current_service()) as folder:
        for number, file in enumerate(files, start=1):
            name = file_name(file.filename, f"file-{number}")
            name = name if name not in names else f"{number}-{name}"
            receive(folder, name, iter(partial(file.stream.read, CHUNK_BYTES), b""))
            names.append(name)
        title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        return submit(folder, "upload", title, {"replace": replace})


def _is_taken(engine: Engine, doc_id: str) -> bool:
    try:
        stored_document(engine.knowledge_base, doc_id)
    except UnknownDocumentError:
        return False
    return True


def _ask_about(title: str) -> str:
    return replace(SearchForm(), q=f"What is {title.strip()}?").address() if title.strip() else url_for("page.ask")


def _mark(text: str) -> tuple[int, Span] | None:
    """Return the paragraph and the characters of it that an address wants marked; None for anything else."""
    found = _MARK.fullmatch(text)
    if found is None:
        return None
    paragraph, start, end = map(int, found.groups())
    return (paragraph, Span(start, end)) if start < end else None


def _marked(passage: PassageRecord, mark: tuple[int, Span] | None) -> tuple[Piece, ...]:
    """Return the passage's text in pieces, marked where it holds what is to be marked."""
    if mark is None or mark[0] != passage.ordinal:
        return (Piece(passage.text, "around"),)
    start, end = mark[1].start - passage.char_offset, mark[1].end - passage.char_offset
    if end <= 0 or start >= len(passage.text):
        return (Piece(passage.text, "around"),)
    return tuple(each for each in pieces(passage.text, mark=Span(max(start, 0), end)) if each.text)


def _back(address: str) -> str | None:
    """Return the address of the search that led here; None for anything but one of this page's searches."""
    return address if address.startswith(f"{page_root()}/?") and address.isprintable() else None
