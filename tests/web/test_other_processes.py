"""Changes that other processes make show within a second, asked for or not."""

from __future__ import annotations

import subprocess
import sys

from tests.waiting import wait_until
from web.engine import EngineOptions

CHANGE = """
import sys
import numpy as np
from storage.records import NewDocument, NewPassage
from storage.writer import KBWriter

with KBWriter.open(sys.argv[1]) as writer:
    d = writer.settings.d
    one = np.ones((1, d), np.float32) / np.sqrt(np.float32(d))
    passage = NewPassage(
        ordinal=1, text="A zebra has stripes.", vectors=one, token_ordinals=np.array([1], np.uint32),
        starts=np.array([2], np.int32), ends=np.array([7], np.int32), filter_logits=np.zeros((1, 2), np.float32),
        passage_vector=one[0], n_tokens=5,
    )
    writer.add([NewDocument("zebra", "Zebra", passages=(passage,))])
    print("added", flush=True)
    sys.stdin.readline()
    writer.delete(["zebra"])
    print("deleted", flush=True)
"""


def found(service):
    """Return whether the zebra is in the answer."""
    answer = service.post("/v1/search", {"text": "stripes", "unit": "passage", "k": 50}).json
    return any(each["document"]["id"] == "zebra" for each in answer["answers"])


def test_a_change_of_another_process_shows_within_a_second(service, kb_path):
    """The newest commit is opened though nobody asks, and the next answer has it: no cached one is given."""
    assert not found(service)
    assert not found(service)
    before = service.engine.knowledge_base.generation
    reader = service.engine.knowledge_base.reader
    with subprocess.Popen(
        [sys.executable, "-c", CHANGE, str(kb_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "added\n"
        assert EngineOptions().refresh_s <= 1
        wait_until(lambda: reader._seen[1].generation > before)
        assert found(service)
        assert service.client.get("/v1/kb").json["documents"] == 6
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "deleted\n"
        assert not found(service)
        assert service.client.get("/v1/kb").json["documents"] == 5
