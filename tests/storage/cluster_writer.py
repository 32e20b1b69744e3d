"""A process that adds and deletes documents of a cluster until it is killed, and says what was acknowledged."""

from __future__ import annotations

import itertools
import sys
import uuid
from pathlib import Path

from storage.cluster import Cluster
from storage.cluster_changes import change_documents
from tests.storage.cluster_world import make_shard
from tests.storage.small_world import make_document


def main(root: str, catalog: str, scratch: str, number: str) -> None:
    """Add two documents and delete one of them, again and again."""
    cluster = Cluster.open(root, catalog or None)
    folder = Path(scratch) / f"writer-{number}"
    folder.mkdir()
    for turn in itertools.count():
        names = [f"{number}-{turn}-{each}-{uuid.uuid4().hex[:4]}" for each in "ab"]
        first = cluster.catalog.reserve(2)
        shard = make_shard(cluster, folder, [make_document(name, "kelp fjord") for name in names], first)
        change_documents(cluster, add=shard, kbengine_version="1")
        for name in names:
            say("added", name)
        say("deleting", names[0])
        change_documents(cluster, delete_ids=[names[0]], kbengine_version="1")
        say("deleted", names[0])


def say(what: str, doc_id: str) -> None:
    """Write a line that is out when this returns."""
    sys.stdout.write(f"{what} {doc_id}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
