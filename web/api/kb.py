"""/v1/kb: what the knowledge base holds, and whether it is what was written."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from apiflask import APIBlueprint
from flask import Response

from kbengine.terminal.facts import kb_facts
from storage.errors import InvalidOptionError
from web.endings import READS, may_end_in
from web.guards import access
from web.models.documents import KnowledgeBaseBody, VerifyBody
from web.models.jobs import ExportQuery, JobBody
from web.responses import fields_of, json_response
from web.service import current_service
from web.submitting import accepted, new_job_folder, submit
from web.verifying import VerifyState

kb = APIBlueprint("kb", __name__, url_prefix="/v1", tag="Knowledge base")


@kb.get("/kb")
@kb.output(KnowledgeBaseBody)
@may_end_in(of=READS)
@access("read")
def get_kb() -> Response:
    """Describe the knowledge base.

    Counts, sizes, settings, the last commits and the last verification.
    """
    service = current_service()
    engine = service.engine
    facts = kb_facts(engine.info())
    del facts["path"]  # the operator's business
    name = service.name or engine.knowledge_base.path.name
    served = service.served if service.served and not service.settings.needs_key else (name,)
    return json_response(
        {"name": name, "served": list(served), **facts, "verify": verify_json(engine.verification.state)}
    )


@kb.post("/kb:verify")
@kb.output(VerifyBody, 202, description="A verification is running; GET /v1/kb shows its result.")
@access("admin")
def start_verify() -> Response:
    """Verify the knowledge base.

    Every byte is read and compared, in the background; queries go on meanwhile.
    """
    engine = current_service().engine
    engine.need_one_machine("verifying from here")
    return json_response(verify_json(engine.verification.start()), 202)


@kb.post("/kb:backup")
@kb.output(JobBody, 202, description="The job that makes the backup.")
@may_end_in(400, 429, 507, of=READS)
@access("admin")
def start_backup() -> Response:
    """Back up the knowledge base, as a job.

    The result is an archive of one commit, whatever changes meanwhile: `tar xf` makes a folder `backups` of it, and
    `kbengine restore backups` a knowledge base, verified. Hashes of API keys kept beside the knowledge base are in it.
    """
    service = current_service()
    service.engine.need_one_machine("backing up from here")
    with new_job_folder(service) as folder:
        return accepted(submit(folder, "backup", "backup", {}))


@kb.post("/kb:export")
@kb.input(ExportQuery, location="query")
@kb.output(JobBody, 202, description="The job that exports everything.")
@may_end_in(400, 409, 429, 507, of=READS)
@access("read")
def start_export(query_data: ExportQuery) -> Response:
    """Export the knowledge base, as a job.

    The result is one file with all documents, their passages, names, links and fields, of one commit.
    """
    service = current_service()
    if query_data.form == "parquet" and find_spec("pyarrow") is None:
        raise InvalidOptionError("Parquet needs pyarrow, which is not installed where the service runs; ask for sqlite")
    with new_job_folder(service) as folder:
        return accepted(submit(folder, "export", f"export as {query_data.form}", query_data.model_dump()))


def verify_json(state: VerifyState) -> dict[str, Any]:
    """Return the state of the verification as plain JSON values."""
    report = state.report
    findings = () if report is None else report.findings
    return fields_of(state, "state", "started_at", "finished_at", "problem") | {
        "ok": None if report is None else report.ok,
        "findings": [fields_of(each, "severity", "where", "what") for each in findings],
    }
