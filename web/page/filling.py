"""The page that fills tables: a file is sent, its columns chosen, some rows shown filled, the whole made a job."""

from __future__ import annotations

import re
from dataclasses import asdict
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from flask import Response, make_response, redirect, render_template, request, url_for
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from adapters.errors import TableError
from adapters.filling.filler import FillOptions
from adapters.filling.filling import fill_rows
from adapters.filling.opening import open_table
from adapters.filling.table import TABLE_FORMATS, Table, format_of, text_of
from storage.errors import InvalidOptionError, UsageError
from web import limits
from web.errors import UnknownJobError
from web.guards import FORM_TYPES, access, body
from web.jobs.context import INPUT_NAME
from web.page.problems import problem_of
from web.service import current_service
from web.submitting import CHUNK_BYTES, file_name, new_job_folder, receive, submit
from web.works.filling import filler_of

PREVIEW_ROWS = 3
SHOWN_ROWS = 5
_LIBRARIES = {"xlsx": "openpyxl", "parquet": "pyarrow"}
_TABLE_ID = re.compile(r"[0-9a-f]{16}")
_EXAMPLE = "place of birth\nP569"


def fill() -> Response:
    """Return the form: for a file, or, once that is here, for its columns; with some rows filled when asked for."""
    table_id = request.args.get("table", "")
    if not table_id:
        return _page({})
    try:
        table = open_table(_table_path(table_id))
    except UsageError as error:
        return _page({"problem": problem_of(error)}, problem_of(error).status)
    return _with_table(table_id, table, request.args, preview="column" in request.args)


@access("read")
@body(*FORM_TYPES, max_bytes=limits.UPLOAD_BYTES)
def send_table() -> BaseResponse:
    """Keep the table that was sent and lead to its columns."""
    file = request.files.get("file")
    try:
        if file is None or not file.filename:
            raise TableError("there is no file; choose one")
        name = file_name(file.filename, "table.csv")
        with new_job_folder(current_service()) as folder:
            receive(folder, name, iter(lambda: file.stream.read(CHUNK_BYTES), b""))
            open_table(folder / INPUT_NAME / name)
    except UsageError as error:
        return _page({"problem": problem_of(error)}, problem_of(error).status)
    return redirect(url_for("page.fill", table=folder.name), 303)


@access("read")
@body(*FORM_TYPES)
def start() -> BaseResponse:
    """Make the table a job and lead to it; or say what is wrong with what was chosen."""
    table_id = request.form.get("table", "")
    path = _table_path(table_id)
    table = open_table(path)
    try:
        options = _options(request.form)
        options.check(table)
        out = format_of(path, request.form.get("out") or None)
    except UsageError as error:
        return _with_table(table_id, table, request.form, problem=problem_of(error))
    arguments = {"options": asdict(options), "format": None, "out": out}
    job = submit(path.parent.parent, "fill", path.name, arguments)
    return redirect(url_for("page.jobs", _anchor=job.id), 303)


def _with_table(
    table_id: str, table: Table, asked: MultiDict[str, str], *, preview: bool = False, problem: Any = None
) -> Response:
    values: dict[str, Any] = {
        "table": table,
        "table_id": table_id,
        "asked": asked,
        "rows": [[text_of(cell) for cell in row] for row in islice(table.rows(), SHOWN_ROWS)],
        "shown_columns": table.columns,
        "problem": problem,
    }
    if preview:
        try:
            options = _options(asked)
            options.check(table)
            service = current_service()
            filler = filler_of(service.engine, options, service.deadline())
            first = [dict(zip(table.columns, row, strict=True)) for row in islice(table.rows(), PREVIEW_ROWS)]
            filled = fill_rows(first, filler, options)
            columns = tuple(dict.fromkeys((*table.columns, *options.columns)))
            values |= {
                "rows": [[_shown(row.get(name)) for name in columns] for row in filled],
                "shown_columns": columns,
                "is_preview": True,
            }
        except UsageError as error:
            values["problem"] = problem_of(error)
    return _page(values, values["problem"].status if values["problem"] else 200)


def _page(values: dict[str, Any], status: int = 200) -> Response:
    known = [each for each in TABLE_FORMATS if each not in _LIBRARIES or find_spec(_LIBRARIES[each]) is not None]
    defaults: dict[str, Any] = {
        "section": "page.fill",
        "table": None,
        "problem": None,
        "is_preview": False,
        "asked": {},
        "formats": known,
        "accepted": ",".join(f".{each}" for each in known),
        "example": _EXAMPLE,
    }
    return make_response(render_template("page/fill.html", **{**defaults, **values}), status)


def _options(asked: MultiDict[str, str]) -> FillOptions:
    """Return what the form asks for.

    Raises:
        InvalidOptionError: a number is none, or the choices do not go together.
    """
    column, is_question = asked.get("column", ""), asked.get("kind") == "questions"
    relations = tuple(dict.fromkeys(each.strip() for each in asked.get("relations", "").splitlines() if each.strip()))
    threshold = asked.get("threshold", "").strip()
    try:
        least = float(threshold) if threshold else None
    except ValueError:
        raise InvalidOptionError(f"the least probability is {threshold!r}, wanted a number from 0 to 1") from None
    if is_question:
        return FillOptions(question=column, threshold=least)
    return FillOptions(subject=column, relations=relations, context=asked.get("context") or None, threshold=least)


def _table_path(table_id: str) -> Path:
    """Return the file of a table that was sent and is no job yet.

    Raises:
        UnknownJobError: there is none.
    """
    store = current_service().jobs.store
    folder = store.folder / table_id / INPUT_NAME
    if _TABLE_ID.fullmatch(table_id) and folder.is_dir() and not store.has(table_id):
        for path in folder.iterdir():
            return path
    raise UnknownJobError("the table is not kept any more, or is being filled already; send it again")


def _shown(cell: Any) -> str:
    return f"{cell:.2f}" if isinstance(cell, float) else text_of(cell)
