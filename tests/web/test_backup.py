"""A backup over HTTP: a job whose archive is restored to the same knowledge base."""

from __future__ import annotations

import io
import tarfile

from storage.backup import restore
from storage.verify import verify
from tests.waiting import wait_until


def test_the_archive_is_restored_to_what_was_served(service, tmp_path):
    """And nothing of it is left but the archive."""
    client = service.client
    job = client.post("/v1/kb:backup").json
    assert job["kind"] == "backup"
    wait_until(lambda: client.get(job["address"]).json["finished_at"])
    job = client.get(job["address"]).json
    assert job["state"] == "succeeded", job["problem"]
    answer = client.get(job["result"], buffered=True)
    name = f"backup-{job['facts']['generation']}.tar"
    assert (answer.mimetype, name in answer.headers["Content-Disposition"]) == ("application/x-tar", True)
    with tarfile.open(fileobj=io.BytesIO(answer.data)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    answer.close()
    restore(tmp_path / "unpacked" / "backups", tmp_path / "again")
    report = verify(tmp_path / "again")
    assert report.clean and report.documents == client.get("/v1/kb").json["documents"]
    (folder,) = [path for path in (service.engine.knowledge_base.path / "jobs").iterdir() if path.name == job["id"]]
    assert not (folder / "backups").exists()
