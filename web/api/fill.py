"""POST /v1/fill: a table with a column of names or questions in, a job that fills it out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import PurePosixPath

from apiflask import APIBlueprint
from flask import Response, request

from adapters.filling.opening import open_table
from adapters.filling.table import MEDIA_TYPES, TABLE_FORMATS, format_of
from web import limits
from web.endings import CHANGES, may_end_in
from web.guards import access, body
from web.jobs.context import INPUT_NAME
from web.models.fill import FillQuery
from web.models.jobs import JobBody
from web.service import current_service
from web.submitting import accepted, file_name, new_job_folder, receive_body, submit

fill = APIBlueprint("fill", __name__, url_prefix="/v1", tag="Jobs")


@fill.post("/fill")
@fill.input(FillQuery, location="query")
@fill.output(JobBody, 202, description="The job that fills the table.")
@body(*MEDIA_TYPES.values(), "application/octet-stream", max_bytes=limits.UPLOAD_BYTES, streams=True)
@may_end_in(of=CHANGES)
@access("read")
def fill_table(query_data: FillQuery) -> Response:
    """Fill a table, as a job.

    The body is a CSV, TSV, Excel or Parquet file with a header. The result has every row, with further columns: each
    name's document, the value, probability and evidence of each relation, and what could not be filled and why. Cells
    that hold something stay as they are.
    """
    asked = query_data
    options = asked.options(request.args.getlist("relation"))
    of_type = next((each for each in TABLE_FORMATS if MEDIA_TYPES[each] == request.mimetype), None)
    name = file_name(asked.name, f"table.{asked.format or of_type or 'csv'}")
    suffix = PurePosixPath(name).suffix
    chosen = asked.format or (None if suffix.lower().removeprefix(".") in TABLE_FORMATS else of_type)
    with new_job_folder(current_service()) as folder:
        receive_body(folder, name)
        table = open_table(folder / INPUT_NAME / name, chosen)  # what is wrong with it is told at once
        options.check(table)
        out = asked.out or format_of(folder / name, chosen)
        return accepted(submit(folder, "fill", name, {"options": asdict(options), "format": chosen, "out": out}))
