"""Commands that have a running service change its knowledge base, or do long work: as on the directory, and resumed."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import threading

import pytest
from click.testing import CliRunner
from werkzeug.serving import make_server

from adapters.commands.export import export
from adapters.commands.feedback import feedback
from adapters.commands.fill import fill
from kbengine.terminal.aliases_command import aliases
from kbengine.terminal.build_commands import add
from kbengine.terminal.maintenance_commands import compact, delete
from kbengine.terminal.service import Service
from kbengine.terminal.service_jobs import finished, name_of


@pytest.fixture
def served(service, monkeypatch):
    """A service of its own at an address, which does jobs and which the environment names."""
    server = make_server("127.0.0.1", 0, service.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    service.app.extensions["kbengine"].jobs.start()
    monkeypatch.setenv("KBENGINE_URL", f"http://127.0.0.1:{server.server_port}")
    yield service
    server.shutdown()
    thread.join()
    server.server_close()


def ran(command, *arguments, status=0):
    """What a command writes."""
    done = CliRunner().invoke(command, [str(each) for each in arguments])
    assert done.exit_code == status, done.output
    return done.stdout if status == 0 else done.output


def lines(command, *arguments):
    """The JSON lines that a command writes."""
    return [json.loads(line) for line in ran(command, *arguments, "--json").splitlines()]


def table_of(tmp_path, names=("Marie Curie", "Nobody")):
    """A table of names."""
    table = tmp_path / "people.csv"
    table.write_text("name,born\n" + "".join(f"{name},\n" for name in names))
    return table


def test_a_table_is_filled_by_a_service_as_by_its_directory(served, kb_path, tmp_path, monkeypatch, encoder):
    """The same cells; afterwards the service keeps nothing of it."""
    from kbengine.encoders.encoder import Encoder

    monkeypatch.setattr(Encoder, "load", classmethod(lambda cls, *_, **__: encoder))
    asked = (table_of(tmp_path), "--subject", "name", "--relation", "P19", "--values", 2, "--no-evidence")
    (there,) = lines(fill, *asked, "--out", tmp_path / "there.csv")
    (here,) = lines(fill, *asked, "--out", tmp_path / "here.csv", "--kb", kb_path)
    rows = list(csv.DictReader((tmp_path / "there.csv").read_text(encoding="utf-8").splitlines()))

    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
    assert there == {name: here[name] for name in there} | {"out": str(tmp_path / "there.csv")}
    assert [row["name"] for row in rows] == ["Marie Curie", "Nobody"]
    assert served.client.get("/v1/jobs").json["jobs"] == []


def test_a_table_whose_command_was_interrupted_is_taken_up_again(served, tmp_path):
    """The same command finds its job; nothing is asked twice, and Ctrl-C says so."""
    table, service = table_of(tmp_path), Service.of_environment()
    asked = {"relation": ("P19",), "evidence": True, "subject": "name", "values": 1, "read": None}

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    from adapters.remote import filling

    sent = {"subject": "name", "values": 1, "evidence": True, "relation": ("P19",)}
    sent |= {"name": table.name, "format": "csv", "out": "csv"}
    path = "/v1/fill?subject=name&values=1&evidence=true&relation=P19&name=people.csv&format=csv&out=csv"
    job = service.send(path, table, "text/csv", name=name_of(table, sent))
    with pytest.raises(KeyboardInterrupt):
        finished(service, job, clock=stop)
    filling.fill_table(service, table, tmp_path / "out.csv", asked)

    assert (tmp_path / "out.csv").read_text().count("\n") == 3
    assert served.client.get(f"/v1/jobs/{job['id']}").status_code == 404, "the job was another one"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--subject", "nam"), "no column 'nam'"),
        (("--subject", "name", "--reader", "x"), "--reader is the service's own choice"),
        (("--subject", "name", "--out", "OUT.csv"), "is there already"),
    ],
)
def test_what_cannot_be_filled_is_told(served, tmp_path, options, said):
    """At once, with what to do."""
    there = tmp_path / "OUT.csv"
    there.write_text("mine")
    out = () if "--out" in options else ("--out", tmp_path / "x.csv")
    done = CliRunner().invoke(
        fill,
        [str(table_of(tmp_path)), *[str(there) if each == "OUT.csv" else each for each in options], *map(str, out)],
    )

    assert done.exit_code in (1, 2) and said in f"{done.output}{done.exception}" and there.read_text() == "mine"


def test_feedback_is_said_listed_exported_and_deleted(served, tmp_path):
    """By the numbers that the service gives."""
    (said,) = lines(feedback, "add", "Who was a physicist?", "--right", "Marie Curie", "--wrong", "Paris")
    listed = lines(feedback, "list")
    exported = lines(feedback, "export", tmp_path / "said.jsonl")
    ran(feedback, "delete", said["added"][0])

    assert [(each["answer"], each["verdict"]) for each in listed] == [("Marie Curie", "right"), ("Paris", "wrong")]
    assert exported[0]["rows"] == 1 and "Marie Curie" in (tmp_path / "said.jsonl").read_text()
    assert [each["feedback_id"] for each in lines(feedback, "list")] == said["added"][1:]
    assert lines(feedback, "list", "--after", said["added"][1]) == []


def test_names_are_given_listed_matched_and_taken(served):
    """A page at a time."""
    assert lines(aliases, "add", "marie-curie", "Manya", "Mania", "--prior", 0.5)[0]["added"] == 2
    assert [each["doc_id"] for each in lines(aliases, "match", "manya")] == ["marie-curie"]
    assert [each["alias"] for each in lines(aliases, "list", "--doc", "marie-curie")] == ["Mania", "Manya"]
    assert lines(aliases, "list", "--source", "redirect") == []
    first = CliRunner().invoke(aliases, ["list", "--limit", "1"])
    token = first.output.split("--after '")[1].split("'")[0]
    assert [each["alias"] for each in lines(aliases, "list", "--limit", 1, "--after", token)] == ["Manya"]
    assert lines(aliases, "delete", "marie-curie", "--all")[0]["deleted"] == 2
    assert "cannot be asked of a service" in ran(aliases, "add", "paris", "x", "--source", "redirect", status=2)


def test_files_are_added_and_documents_deleted(served, tmp_path):
    """A folder is not sent."""
    for name in ("a", "b"):
        text = json.dumps({"id": name, "title": name, "text": "A mill was repaired."})
        (tmp_path / f"{name}.jsonl").write_text(text + "\n")
    (added,) = lines(add, tmp_path / "a.jsonl", tmp_path / "b.jsonl")

    assert (added["documents"], added["added"]) == (2, 2)
    assert lines(delete, "a", "b")[0]["deleted"] == 2
    assert "is a folder; a service is sent files" in ran(add, tmp_path, status=2)
    assert "cannot be asked of a service" in ran(add, tmp_path / "a.jsonl", "--encoder", "x", status=2)


def test_a_command_of_a_directory_says_that_it_wants_one(monkeypatch):
    """Whatever service the environment names."""
    monkeypatch.setenv("KBENGINE_URL", "http://127.0.0.1:9")
    assert "works on a directory, not on the service at KBENGINE_URL" in ran(compact, status=2)
    monkeypatch.delenv("KBENGINE_URL")
    told = ran(compact, status=2)
    assert "Missing option '--kb'" in told and "KBENGINE_URL" not in told


def test_a_job_that_fails_is_told_and_can_be_sent_again(served, tmp_path):
    """It is forgotten, so that the same file is not answered with its failure for days."""
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "a", "title": "t", "text": "x"}\n{oops\n')
    told = CliRunner().invoke(add, [str(bad)])

    assert told.exit_code != 0 and "line 2" in told.output
    assert served.client.get("/v1/jobs").json["jobs"] == []


def test_everything_is_exported_by_a_service_as_by_its_directory(served, kb_path, tmp_path):
    """The same files, also compressed; SQLite holds the same rows."""
    for name in ("documents.jsonl", "packed.jsonl.gz", "all.nt"):
        form = ["ntriples"] if name.endswith("nt") else []
        ran(export, *form, "--out", tmp_path / name)
        ran(export, *form, "--out", tmp_path / f"here-{name}", "--kb", kb_path)
        read = gzip.open if name.endswith("gz") else open
        with read(tmp_path / name) as there, read(tmp_path / f"here-{name}") as here:
            assert there.read() == here.read()
    ran(export, "sqlite", "--out", tmp_path / "all.db")
    database = sqlite3.connect(tmp_path / "all.db")
    assert database.execute("SELECT count(*) FROM documents").fetchone() == (5,)
    assert database.execute("SELECT count(*) FROM passages_fts WHERE passages_fts MATCH 'Paris'").fetchone()[0] > 0
    database.close()
    assert served.client.get("/v1/jobs").json["jobs"] == []
    assert "--out is missing" in ran(export, "documents", status=2)


def test_an_export_is_begun_on_the_page_and_its_address_refuses_other_forms(served):
    """Which leads to the job."""
    led = served.client.post("/status/export", data={"form": "sqlite"})
    assert led.status_code == 303 and "/jobs#" in led.headers["Location"]
    assert served.client.post("/status/export", data={"form": "docx"}).status_code == 400
    assert served.client.post("/v1/kb:export?form=docx").status_code == 422
    assert served.client.post("/v1/kb:export?form=ntriples&base=javascript:1").status_code == 422
