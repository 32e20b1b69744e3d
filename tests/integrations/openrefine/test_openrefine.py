"""OpenRefine itself, without a window: a column is matched with documents and extended by slots."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest
from werkzeug.serving import make_server

from kbengine import KnowledgeBase
from tests.waiting import wait_until
from web.app import create_app
from web.engine import Engine
from web.settings import ServiceSettings

PROGRAM = shutil.which("openrefine")
TABLE = "name,city\nMarie Curie,Warsaw\nFrida Kahlo,\nNobody of that Name,\nLincoln,Nebraska\n"
ENGINE = json.dumps({"facets": [], "mode": "row-based"})

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs OpenRefine: apt-get install openrefine")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class OpenRefine:
    """A client of a running OpenRefine, with one project."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.project = ""

    def get(self, command: str, **parameters: Any) -> Any:
        """Return what a command answers."""
        with urlopen(f"{self.address}/command/core/{command}?{urlencode(parameters)}", timeout=60) as answer:
            return json.load(answer)

    def post(self, command: str, **form: Any) -> Any:
        """Return what a command answers to a form."""
        form |= {"csrf_token": self.get("get-csrf-token")["token"], "project": self.project}
        with urlopen(f"{self.address}/command/core/{command}", urlencode(form).encode(), timeout=60) as answer:
            return json.load(answer)

    def create(self, table: str) -> None:
        """Make a project of a CSV text."""
        token = self.get("get-csrf-token")["token"]
        parts = {"project-name": "people", "format": "text/line-based/*sv", "project-file": table}
        lines = []
        for name, value in parts.items():
            file = '; filename="people.csv"' if name == "project-file" else ""
            lines.append(f'--part\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n{value}\r\n')
        request = Request(
            f"{self.address}/command/core/create-project-from-upload?csrf_token={token}",
            ("".join(lines) + "--part--\r\n").encode(),
            {"Content-Type": "multipart/form-data; boundary=part"},
        )
        with urlopen(request, timeout=60) as answer:
            self.project = parse_qs(urlsplit(answer.url).query)["project"][0]

    def done(self) -> None:
        """Wait until no process of the project runs."""
        wait_until(lambda: not self.get("get-processes", project=self.project)["processes"], interval_s=0.2)

    def cells(self) -> list[list[Any]]:
        """Return the cells of all rows."""
        rows = self.get("get-rows", project=self.project, start=0, limit=20)["rows"]
        return [row["cells"] for row in rows]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the demo's knowledge base, served."""
    folder = tmp_path_factory.mktemp("demo") / "kb"
    KnowledgeBase.build(folder, [Path(str(files("kbengine"))) / "demo" / "corpus.jsonl"], progress=False).close()
    engine = Engine.open(folder)
    server = make_server("127.0.0.1", 0, create_app(ServiceSettings(), engine), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()
    engine.close()


@pytest.fixture(scope="module")
def refine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenRefine]:
    """OpenRefine, running."""
    port, folder = free_port(), tmp_path_factory.mktemp("refine")
    options = ["-i", "127.0.0.1", "-p", str(port), "-d", str(folder), "-m", "512M", "-x", "refine.headless=true"]
    with Path(folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(PROGRAM), *options],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "HOME": str(folder)},
        )
        client = OpenRefine(f"http://127.0.0.1:{port}")

        def answers() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            with contextlib.suppress(URLError):
                return bool(client.get("get-version"))
            return False

        wait_until(answers, interval_s=0.2)
        yield client
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def test_a_column_is_matched_and_extended(service: str, refine: OpenRefine) -> None:
    """Sure names are matched by themselves, unknown ones are not; values come as documents and as texts."""
    with urlopen(f"{service}/reconcile") as answer:
        manifest = json.load(answer)
    spaces = {name: manifest[name] for name in ("identifierSpace", "schemaSpace")}
    refine.create(TABLE)
    config = {
        "mode": "standard-service",
        "service": f"{service}/reconcile",
        **spaces,
        "type": manifest["defaultTypes"][0],
        "autoMatch": True,
        "limit": 4,
        "columnDetails": [{"column": "city", "propertyName": "place of birth", "propertyID": "P19"}],
    }
    refine.post("reconcile", columnName="name", engine=ENGINE, config=json.dumps(config))
    refine.done()
    recons = refine.get("get-rows", project=refine.project, start=0, limit=20)["pool"]["recons"]
    found = [recons[str(row[0]["r"])] for row in refine.cells()]
    assert [each["j"] for each in found] == ["matched", "matched", "none", "none"]
    assert [each["m"]["id"] for each in found[:2]] == ["marie-curie", "frida-kahlo"]
    assert found[3]["c"][0]["id"] == "lincoln-nebraska"

    extension = {"properties": [{"id": "P19", "name": "place of birth"}, {"id": "P569", "name": "date of birth"}]}
    refine.post(
        "extend-data",
        baseColumnName="name",
        endpoint=f"{service}/reconcile",
        **spaces,
        extension=json.dumps(extension),
        columnInsertIndex=1,
        engine=ENGINE,
    )
    refine.done()
    rows = refine.cells()
    assert [cell["v"] for cell in rows[0][2:4]] == ["Warsaw", "7 November 1867"]  # new cells come last in a row
    assert "r" in rows[0][2] and "r" not in rows[0][3]  # Warsaw is a document, a date is none
    assert rows[1][3]["v"] == "6 July 1907" and not any(rows[2][2:])
