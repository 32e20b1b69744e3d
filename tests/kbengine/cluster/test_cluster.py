"""A cluster searched in one process: the answers of one knowledge base, changes at once, what a lost shard costs."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from adapters.tasks.answerer import Answerer, AnswerOptions
from kbengine.cluster.breaker import Breaker, BreakerOptions
from kbengine.cluster.calls import MANY, Call, failed, parsed_call
from kbengine.cluster.host import ShardHost
from kbengine.cluster.hosting import METHODS, HostSpec, ShardOpener, host_of
from kbengine.cluster.knowledge_base import ClusterKnowledgeBase
from kbengine.cluster.opening import ClusterOptions, open_cluster
from kbengine.cluster.replicas import ReplicaOptions, Watched
from kbengine.cluster.routing import Router, RouterOptions
from kbengine.corpus.kilt import parse_kilt
from kbengine.encoders.encoder import Encoder
from kbengine.errors import (
    DuplicateAliasError,
    InvalidOptionError,
    OneMachineError,
    ShardUnavailableError,
    StateError,
    UnknownAliasError,
    UnknownDocumentError,
)
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
from storage.cluster import Cluster
from storage.errors import CatalogUnavailableError, CorruptError
from tests.kbengine.cluster.small_cluster import PATIENT, Corpus, corpus_of, make_cluster, one_knowledge_base
from web.app import create_app
from web.engine import Engine
from web.settings import ServiceSettings

DEMO = Path(__file__).parents[3] / "kbengine" / "demo" / "corpus.jsonl"
N_SHARDS = 3
ASKED = (
    Question("What was the programming language Java called at first?"),
    Question("Who conducted research on radioactivity?"),
    Slot("Frida Kahlo", "P26"),
    Slot.backwards("place of birth", "Warsaw"),
    Mention("From Lincoln to Omaha.", (5, 12)),
    Dialogue(("I will have a free day in Lincoln.", "Was it always called Lincoln?")),
)


class Faulty:
    """A replica of which some shards do not answer, while they are named in `down`."""

    def __init__(self, host: ShardHost) -> None:
        self.name = "faulty"
        self.host = host
        self.down: set[str] = set()
        self.sent = 0
        self.on_call: Any = None

    def send(self, message: bytes) -> Future[bytes]:
        """Answer at once, or fail."""
        future: Future[bytes] = Future()
        self.sent += 1
        calls = [parsed_call(message)]
        if calls[0].method == MANY:
            calls = [parsed_call(each) for each in calls[0].requests]
        for call in calls:
            if self.on_call is not None:
                self.on_call(call)
        if self.down & {call.place.shard for call in calls}:
            future.set_exception(ConnectionError("the actor died"))
        else:
            future.set_result(self.host.answer(message))
        return future


class OneFaulty:
    """The faulty replica as the only searcher."""

    n = 1

    def __init__(self, replica: Faulty) -> None:
        self._all = (Watched(replica, Breaker(BreakerOptions(failures=1_000_000))),)

    def replicas(self, searcher: int):
        """Return the only one."""
        return self._all

    def all(self):
        """Return the only one."""
        return self._all

    def tend(self, draining):
        """Move nothing."""
        return ()

    def machines(self):
        """There is but this one."""
        return {}

    def close(self) -> None:
        """End what was started: nothing."""


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """The default encoder."""
    return Encoder.load("minilm-phrase")


@pytest.fixture(scope="module")
def corpus(module_demo_kb, encoder) -> Corpus:
    """Some documents of the bundled corpus."""
    lines = DEMO.read_text(encoding="utf-8").splitlines()
    return corpus_of(module_demo_kb, encoder, [parse_kilt(json.loads(line)) for line in (*lines[:40], *lines[90:100])])


@pytest.fixture(scope="module")
def one(corpus, tmp_path_factory) -> Iterator[KnowledgeBase]:
    """All documents in one knowledge base."""
    with KnowledgeBase.open(one_knowledge_base(tmp_path_factory.mktemp("one") / "kb", corpus)) as knowledge_base:
        yield knowledge_base


@pytest.fixture
def root(corpus, tmp_path) -> str:
    """A cluster of its own."""
    return make_cluster(tmp_path / "cluster", tmp_path, corpus, N_SHARDS)


@pytest.fixture
def cluster(root, tmp_path) -> Iterator[ClusterKnowledgeBase]:
    """It, searched in this process."""
    with open_cluster(ClusterOptions(root, folder=tmp_path / "state", router=PATIENT)) as knowledge_base:
        yield knowledge_base


@pytest.fixture
def faulty(root, encoder, tmp_path) -> Iterator[tuple[ClusterKnowledgeBase, Faulty]]:
    """It, with a replica that can be made to fail, and no patience."""
    opened = Cluster.open(root)
    replica = Faulty(ShardHost(ShardOpener(opened, tmp_path / "shards"), METHODS))
    router = Router(opened, OneFaulty(replica), RouterOptions(ReplicaOptions(patience_s=0.0), deadline_s=600.0))
    (tmp_path / "state").mkdir()
    with ClusterKnowledgeBase(opened, router, encoder, tmp_path / "state", KnowledgeBaseOptions()) as knowledge_base:
        yield knowledge_base, replica
    replica.host.close()


def plain(answer: Any) -> dict[str, Any]:
    """Return an answer as JSON without what is of the occasion."""
    left_out = ("generation", "timings_ms", "shards_answered", "degraded")
    return {name: value for name, value in answer.to_json().items() if name not in left_out}


@pytest.mark.parametrize(
    "options",
    [AnswerOptions(), AnswerOptions(k=30, effort="exact", explain=True), AnswerOptions(unit="document", read=0)],
    ids=["plain", "many", "documents"],
)
def test_answers_are_those_of_one_knowledge_base(options, one, cluster):
    """To the last bit, for every task, through messages."""
    wanted = [plain(each) for each in Answerer(one).answer(ASKED, options)]
    found = Answerer(cluster).answer(ASKED, options)

    assert [plain(each) for each in found] == wanted
    assert [each.shards.degraded for each in found] == [False] * len(ASKED)
    assert found[0].to_json()["shards_answered"] == N_SHARDS


def test_records_are_those_of_one_knowledge_base(one, cluster):
    """Listings, texts, names and fields."""
    for records in (one.reader, cluster.reader):
        listed = records.list_documents(limit=7, after="b")
        assert listed == one.reader.list_documents(limit=7, after="b")
        document = records.document("frida-kahlo")
        assert [each.text for each in records.passages_of_document(document.document_id)] == [
            each.text for each in one.reader.passages_of_document(document.document_id)
        ]
        assert records.fields() == one.reader.fields()
        assert records.ids_of(["Frida Kahlo", "frida-kahlo", "nobody"]) == one.reader.ids_of(
            ["Frida Kahlo", "frida-kahlo", "nobody"]
        )
        assert records.titles_of(["frida-kahlo"]) == {"frida-kahlo": "Frida Kahlo"}
    assert cluster.alias_matches("Java") == one.alias_matches("Java")
    counts = [(each.info().aliases, each.info().links) for each in (one, cluster)]
    assert counts[0] == counts[1] and counts[0][0] > 0
    with pytest.raises(UnknownDocumentError, match="nobody"):
        cluster.reader.document("nobody")


def test_changes_are_in_the_next_answer(cluster):
    """Added, replaced and deleted documents, and names; each change is a generation."""
    asked = "Which river crosses Zworykin?"
    added = cluster.add([{"id": "z", "title": "Zworykin", "text": "The river Qarun crosses the town of Zworykin."}])
    assert (added.generation, added.documents_added) == (2, 1)
    assert cluster.search(asked, unit="document", k=1).hits[0].document.doc_id == "z"
    replaced = cluster.add([{"id": "z", "title": "Zworykin", "text": "The river Ombla crosses the town of Zworykin."}])
    assert (replaced.generation, replaced.documents_replaced) == (3, 1)
    found = cluster.search(asked, unit="passage", k=5)
    texts = [hit.text for hit in found.hits if hit.document.doc_id == "z"]
    assert (texts, found.generation) == (["The river Ombla crosses the town of Zworykin."], 3)
    assert cluster.add_aliases("z", ["Zworo"]).generation == 4
    assert [record.doc_id for record, _ in cluster.alias_matches("zworo")] == ["z"]
    n_names = cluster.info().aliases
    with pytest.raises(DuplicateAliasError, match="Zworo"):
        cluster.add_aliases("z", ["Zworo"])
    with pytest.raises(UnknownAliasError, match="Nothing"):
        cluster.delete_aliases("z", ["Nothing"])
    assert cluster.delete_aliases("z").aliases == 1
    assert cluster.info().aliases == n_names - 1
    assert cluster.alias_matches("Zworo") == []
    assert cluster.delete(["z"]).documents_deleted == 1
    assert all(hit.document.doc_id != "z" for hit in cluster.search(asked, unit="document", k=20).hits)
    with pytest.raises(UnknownDocumentError):
        cluster.delete(["z"])
    assert cluster.generation == 6
    assert cluster.path.name == "cluster"  # what pages and manifests call it: how the address ends


def test_a_repeated_change_is_made_once(cluster):
    """Under one name it does nothing the second time and says the same."""
    page = {"id": "z", "title": "Z", "text": "Ulm lies on the Danube."}
    first = cluster.add([page], op_id="once")

    assert cluster.add([page], op_id="once") == first
    assert cluster.generation == 2


def test_a_search_sees_one_generation_throughout(faulty):
    """What is committed between two of its rounds is not in it, and is in the next one."""
    knowledge_base, replica = faulty
    generations: list[int] = []
    changed = threading.Event()

    def on_call(call: Call) -> None:
        generations.append(call.place.generation)
        if call.method == "candidates" and not changed.is_set():
            changed.set()
            knowledge_base.delete(["frida-kahlo"])

    replica.on_call = on_call
    during = knowledge_base.search("Frida Kahlo", unit="document", k=1)
    assert set(generations) == {1}
    assert (during.generation, during.hits[0].document.doc_id) == (1, "frida-kahlo")
    replica.on_call = None
    after = knowledge_base.search("Frida Kahlo", unit="document", k=1)
    assert (after.generation, after.hits[0].document.doc_id == "frida-kahlo") == (2, False)


def test_shards_of_one_searcher_are_asked_in_one_message(faulty):
    """As many messages as rounds, however many shards there are; one by one where that fails, with the same answer."""
    knowledge_base, replica = faulty
    rounds: list[str] = []
    replica.on_call = lambda call: rounds.append(call.method)
    found = knowledge_base.search("Who conducted research on radioactivity?", k=5)
    assert rounds.count("candidates") >= N_SHARDS and 2 * replica.sent < len(rounds)
    host, replica.host = replica.host, RefusesMany(replica.host)
    sent, replica.sent = replica.sent, 0
    assert knowledge_base.search("Who conducted research on radioactivity?", k=5).hits == found.hits
    assert replica.sent > sent
    replica.host = host


class RefusesMany:
    """A host that answers one call at a time."""

    def __init__(self, host: ShardHost) -> None:
        self._host = host

    def answer(self, message: bytes) -> bytes:
        """Answer, unless it is several calls."""
        if parsed_call(message).method == MANY:
            return failed(StateError("one at a time"))
        return self._host.answer(message)


def test_a_shard_that_does_not_answer_is_refused_by_name_or_left_out_when_asked(faulty):
    """By default there is no answer; a partial one says how much of the cluster it is from."""
    knowledge_base, replica = faulty
    shard = knowledge_base.router.facts().shards or [each.name for each in knowledge_base.router.manifest().shards]
    replica.down = {shard[1]}
    with pytest.raises(ShardUnavailableError, match=f"shard {shard[1]} does not answer") as refused:
        knowledge_base.search("Frida Kahlo")
    assert refused.value.shard == shard[1]
    found = knowledge_base.search("Frida Kahlo", partial=True)
    assert (found.shards.answered, found.shards.all, found.shards.degraded) == (N_SHARDS - 1, N_SHARDS, True)
    replica.down = set(shard)
    with pytest.raises(ShardUnavailableError):
        knowledge_base.search("Frida Kahlo", partial=True)
    replica.down = set()
    assert not knowledge_base.search("Frida Kahlo", partial=True).shards.degraded
    facts = knowledge_base.router.facts()
    assert (facts.partial, facts.unavailable[shard[1]] >= 2) == (1, True)


def test_reading_goes_on_while_the_catalog_is_down(faulty, monkeypatch):
    """The last generation answers; changes are refused."""
    knowledge_base, _ = faulty
    before = knowledge_base.search("Frida Kahlo").hits

    def down(*_: object) -> None:
        raise CatalogUnavailableError("the catalog does not answer")

    catalog = knowledge_base.router._cluster.catalog
    monkeypatch.setattr(catalog, "newest", down)
    assert knowledge_base.search("Frida Kahlo").hits == before
    assert not knowledge_base.router.facts().catalog_answers


def test_what_is_changed_here_is_seen_at_once_after_the_catalog_was_down(faulty, monkeypatch):
    """A catalog that did not answer is left alone for a while, but not once it took a change of ours."""
    knowledge_base, _ = faulty
    router = knowledge_base.router
    monkeypatch.setattr(router, "_clock", lambda: 100.0)  # as if no time went by

    def down(*_: object) -> None:
        raise CatalogUnavailableError("the catalog does not answer")

    def after_an_outage() -> None:
        with monkeypatch.context() as outage:
            outage.setattr(router._cluster.catalog, "newest", down)
            knowledge_base.search("Frida Kahlo")

    page = {"id": "new", "title": "Zworykin", "text": "Zworykin built a television."}
    changes = (
        lambda: knowledge_base.add([page]),
        lambda: knowledge_base.add_aliases("new", ["Vladimir"]),
        lambda: knowledge_base.delete_aliases("new", ["Vladimir"]),
        lambda: knowledge_base.delete(["new"]),
    )
    for change in changes:
        after_an_outage()
        assert change().generation == knowledge_base.generation


def test_a_host_started_again_answers_as_before(root, tmp_path, cluster):
    """What it has open follows from its constructor and the calls; another cluster's address is refused."""
    ref, name = cluster.router.manifest().ref(), cluster.router.manifest().cluster
    spec = HostSpec(root, None, str(tmp_path / "cache"), (), name)
    host = host_of(spec)
    host.close()
    assert host_of(spec).places == []
    with pytest.raises(StateError, match=r"holds the cluster .*, wanted other"):
        host_of(HostSpec(root, None, str(tmp_path / "cache"), (), "other"))
    assert ref.generation == 1


def test_a_damaged_object_is_named(root, corpus, encoder, tmp_path):
    """Before anything is answered from it."""
    opened = Cluster.open(root)
    entry = opened.manifest().shards[0]
    segment = next(file for file in entry.files if file.path.endswith(".seg"))
    path = next((tmp_path / "cluster").rglob(segment.sha256))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    opener = ShardOpener(opened, tmp_path / "shards")
    from kbengine.cluster.routing import place_of

    with pytest.raises(CorruptError, match=segment.sha256):
        opener(place_of(opened.manifest().ref(), entry.name))
    opened.close()


def test_the_service_of_a_cluster(faulty):
    """Tasks, documents, changes, metrics, readiness and the page; what is for one machine says so."""
    knowledge_base, replica = faulty
    engine = Engine(knowledge_base, Answerer(knowledge_base), router=knowledge_base.router)
    app = create_app(ServiceSettings(), engine, log_stream=io.StringIO())
    client = app.test_client()
    body = {"text": "Who conducted research on radioactivity?", "k": 3}
    try:
        answer = client.post("/v1/question", json=body)
        assert (answer.json["shards_answered"], answer.json["degraded"]) == (N_SHARDS, False)
        assert client.post("/v1/question", json={**body, "partial": True}).json["cached"]
        assert client.get("/v1/documents?limit=3").json["documents"][0]["id"] == "abraham-lincoln"
        assert client.get("/v1/documents/frida-kahlo").json["title"] == "Frida Kahlo"
        page = {"id": "z", "title": "Zworykin", "text": "The river Qarun crosses the town of Zworykin."}
        made = client.post("/v1/documents", json=page, headers={"Idempotency-Key": "one"})
        assert (made.status_code, made.json["generation"], made.json["repeated"]) == (201, 2, False)
        again = client.post("/v1/documents", json=page, headers={"Idempotency-Key": "one"})
        assert (again.json["generation"], again.json["repeated"]) == (2, True)
        asked = {"text": "Which river crosses Zworykin?", "k": 1, "unit": "document"}
        assert client.post("/v1/search", json=asked).json["answers"][0]["document"]["id"] == "z"
        assert client.post("/v1/aliases", json={"document": "z", "aliases": ["Zworo"]}).status_code == 201
        assert client.get("/v1/aliases/matches?name=Zworo").json["matches"][0]["document"] == "z"
        assert client.delete("/v1/documents/z").status_code == 200
        assert client.get("/v1/kb").json["segments"] == N_SHARDS  # the added one is empty, and gone
        for path in ("/v1/kb:backup", "/v1/kb:verify"):
            refused = client.post(path)
            assert (refused.status_code, refused.json["code"]) == (501, "one_machine"), path
            assert "one machine" in refused.json["detail"]
        assert client.get("/readyz").json["checks"]["catalog"] == "ok"
        metrics = client.get("/metrics").text
        assert 'kbengine_replica_state{replica="faulty",state="closed"} 1.0' in metrics
        assert f"kbengine_cluster_shards {N_SHARDS}.0" in metrics
        assert client.get("/").status_code == 200
        searched = client.get("/?q=Who+conducted+research+on+radioactivity%3F")
        assert searched.status_code == 200, searched.text
        assert "Frida Kahlo" in client.get("/documents").text
        assert client.get("/documents?sort=title").status_code == 501
        assert client.get("/document?id=frida-kahlo").status_code == 200

        replica.down = {knowledge_base.router.facts().shards[0]}
        other = {"text": "Who painted?", "k": 3}
        refused = client.post("/v1/question", json=other)
        assert (refused.status_code, refused.json["code"]) == (503, "shard_unavailable")
        partial = client.post("/v1/question", json={**other, "partial": True})
        assert (partial.status_code, partial.json["degraded"], "ETag" in partial.headers) == (200, True, False)
        replica.down = set()
        whole = client.post("/v1/question", json=other)
        assert (whole.json["degraded"], whole.json["cached"]) == (False, False)
    finally:
        engine.before_close(lambda: None)
        engine._closed.set()
        engine._batcher.close()


def test_what_is_for_one_machine_is_refused_in_python_too(cluster):
    """With what to do instead."""
    for refused in (
        lambda: cluster.searcher(),
        lambda: cluster.compact(),
        lambda: cluster.set_setting("a", 1),
        lambda: cluster.add_feedback([]),
        lambda: cluster.reader.snapshot(),
    ):
        with pytest.raises(OneMachineError, match="'kbengine serve --kb'"):
            refused()


def test_options_that_contradict_each_other_are_refused(tmp_path):
    """Each names the value."""
    for made in (
        lambda: ClusterOptions("file:///x", replicas=-1),
        lambda: ClusterOptions("file:///x", replicas=1, searchers=0),
        lambda: ClusterOptions("file:///x", ray="here:6379"),
        lambda: RouterOptions(deadline_s=0),
        lambda: RouterOptions(threads=0),
    ):
        with pytest.raises(InvalidOptionError):
            made()
