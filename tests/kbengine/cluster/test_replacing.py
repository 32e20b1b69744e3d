"""A document that is replaced while it is searched: each time it is in another shard, and it is seen exactly once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kbengine.cluster.build import build_cluster
from kbengine.cluster.opening import ClusterOptions, open_cluster
from storage.cluster import Cluster
from tests.kbengine.cluster.small_cluster import PATIENT
from tests.kbengine.cluster.small_corpus import load_encoder, request_for, write_corpus

TIMES = 6
ASKED = "Which river crosses Zworykin?"


def test_a_document_that_is_replaced_while_it_is_searched_is_seen_once(tmp_path: Path) -> None:
    """Every answer has it as it was in the generation that the answer is from."""
    root = f"file://{tmp_path}/cluster"
    made = Cluster.create(root)
    build_cluster(request_for(write_corpus(tmp_path / "corpus.jsonl")), made, encoder=load_encoder(tmp_path))
    made.close()
    texts = [f"The river Qarun {number} crosses the town of Zworykin." for number in range(TIMES)]
    with open_cluster(ClusterOptions(root, folder=tmp_path / "state", router=PATIENT)) as cluster:
        first = cluster.add([{"id": "moving", "title": "Moving", "text": texts[0]}]).generation

        def replace_it() -> None:
            for text in texts[1:]:
                cluster.add([{"id": "moving", "title": "Moving", "text": text}])

        seen: list[tuple[int, list[str]]] = []
        with ThreadPoolExecutor(1) as thread:
            replacing = thread.submit(replace_it)
            while not replacing.done() or not seen or seen[-1][0] < TIMES - 1:
                found = cluster.search(ASKED, unit="passage", k=100)
                own = [hit.text for hit in found.hits if hit.document.doc_id == "moving"]
                seen.append((found.generation - first, own))
            replacing.result()
    assert [each for each in seen if each[1] != [texts[each[0]]]] == []
