"""The `openai` client, as it is, against a service with keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import openai
import pytest
from werkzeug.serving import make_server

from kbengine.encoders.encoder import Encoder
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import write_tiny_encoder
from tests.web.conftest import serve
from web.keys import KeyFile
from web.settings import ServiceSettings


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    """A client with a key of a service of its own."""
    folder = tmp_path_factory.mktemp("openai")
    encoder = Encoder.load(write_tiny_encoder(folder / "encoder"), device="cpu")
    build_small_kb(folder / "kb", encoder)
    _, key = KeyFile(folder / "kb" / "api-keys.json").create("client", "read")
    served = serve(folder / "kb", encoder, ServiceSettings(require_key=True))
    server = make_server("127.0.0.1", 0, served.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with openai.OpenAI(api_key=key, base_url=f"http://127.0.0.1:{server.port}/v1", max_retries=0) as made:
        yield made
    server.shutdown()
    thread.join()
    server.server_close()
    served.engine.close()


def test_a_store_is_searched(client: openai.OpenAI) -> None:
    """Passages come as the client's own objects."""
    page = client.vector_stores.search("kb", query="Marie Curie", max_num_results=3)
    assert len(page.data) == 3 and [type(each.content[0].text) for each in page.data] == [str] * 3
    assert page.data[0].score >= page.data[1].score and page.data[0].attributes["document_id"] == page.data[0].file_id
    assert [each.file_id for each in page] == [each.file_id for each in page.data]


def test_embeddings_and_models(client: openai.OpenAI) -> None:
    """The client asks for base64 unless it is told otherwise."""
    names = [each.id for each in client.models.list()]
    coded = client.embeddings.create(model=names[0], input=["Paris", "rainforest"])
    plain = client.embeddings.create(model=names[0], input="Paris", encoding_format="float")
    assert coded.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
    assert client.models.retrieve(names[1]).id == names[1]


def test_errors_are_the_clients_own(client: openai.OpenAI) -> None:
    """By status, with our codes."""
    with pytest.raises(openai.NotFoundError) as missing:
        client.vector_stores.search("nowhere", query="x")
    assert missing.value.code == "not_found" and "'kb'" in str(missing.value)
    with pytest.raises(openai.BadRequestError) as wrong:
        client.vector_stores.search("kb", query="x", filters={"type": "eq", "key": "no", "value": "such"})
    assert wrong.value.code == "invalid_option"
    with pytest.raises(openai.UnprocessableEntityError):
        client.embeddings.create(model="x", input=[[1, 2, 3]])
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="kbe_wrong").models.list()
