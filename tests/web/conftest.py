"""A small real knowledge base served by a real engine, and apps and clients made of it."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from apiflask import APIFlask
from flask.testing import FlaskClient

from adapters.tasks.answerer import Answerer
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import FilterOptions
from kbengine.encoders.encoder import Encoder
from kbengine.knowledge_base import KnowledgeBase
from tests.tiny_encoder import SENTENCES, write_tiny_encoder
from web.app import create_app
from web.engine import Engine, EngineOptions
from web.settings import ServiceSettings

PAGES = [
    {"id": "amazon", "title": "Amazon rainforest", "text": [SENTENCES[0], SENTENCES[9]]},
    {"id": "marie-curie", "title": "Marie Curie", "text": [f"{SENTENCES[1]} {SENTENCES[2]}", SENTENCES[7]]},
    {"id": "paris", "title": "Paris", "text": [SENTENCES[3], SENTENCES[6]]},
    {"id": "band", "title": "Band", "text": [SENTENCES[8], SENTENCES[5]]},
    {"id": "a/b c", "title": "Knowledge base", "text": [SENTENCES[4]]},
]


@dataclass
class Served:
    """An app with what is behind it."""

    app: APIFlask
    engine: Engine
    log: io.StringIO

    @property
    def client(self) -> FlaskClient:
        """Return a new client."""
        return self.app.test_client()

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Return the answer to a JSON body."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(path, json=body, headers=named, buffered=True)

    def events(self) -> list[dict[str, Any]]:
        """Return what was logged so far."""
        return [json.loads(line) for line in self.log.getvalue().split("\n") if line]


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The tiny encoder, loaded once."""
    return Encoder.load(write_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny"), dtype="float32")


@pytest.fixture(scope="session")
def built_kb(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Path:
    """The directory of a knowledge base of a few documents; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("web")
    corpus = folder / "pages.jsonl"
    records = [{"_id": page["id"], "title": page["title"], "text": "\n\n".join(page["text"])} for page in PAGES]
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    build(CorpusOptions((corpus,), "beir"), folder / "kb", encoder=encoder, filter_options=FilterOptions())
    return folder / "kb"


@pytest.fixture
def kb_path(built_kb: Path, tmp_path: Path) -> Path:
    """A knowledge base of its own, which may be changed."""
    return Path(shutil.copytree(built_kb, tmp_path / "kb"))


@pytest.fixture(scope="module")
def module_kb(built_kb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base for the tests of one module that change nothing."""
    return Path(shutil.copytree(built_kb, tmp_path_factory.mktemp("module") / "kb"))


def serve(path: Path, encoder: Encoder, settings: ServiceSettings, options: EngineOptions | None = None) -> Served:
    """Return the knowledge base served; the caller closes the engine."""
    knowledge_base = KnowledgeBase.open(path, encoder)
    engine = Engine(knowledge_base, Answerer(knowledge_base), options)
    log = io.StringIO()
    return Served(create_app(settings, engine, log_stream=log), engine, log)


@pytest.fixture(scope="module")
def shared(module_kb: Path, encoder: Encoder) -> Iterator[Served]:
    """A service that the module's tests share, for those that change nothing."""
    served = serve(module_kb, encoder, ServiceSettings())
    yield served
    served.engine.close()


@pytest.fixture
def make_service(kb_path: Path, encoder: Encoder) -> Iterator[Callable[..., Served]]:
    """A function from settings to a service of its own."""
    made: list[Served] = []

    def make(options: EngineOptions | None = None, **settings: Any) -> Served:
        made.append(serve(kb_path, encoder, ServiceSettings(**settings), options))
        return made[-1]

    yield make
    for served in made:
        served.engine.close()


@pytest.fixture
def service(make_service: Callable[..., Served]) -> Served:
    """A service of its own with the usual settings."""
    return make_service()
