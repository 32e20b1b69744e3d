"""Objects on a server that stores them as S3 does: whole or not there, written once, checked when they are read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest

from storage.errors import CorruptError, StateError
from storage.object_places import open_objects
from tests.storage import test_object_store as anywhere

UPLOAD = """
import sys
from pathlib import Path
from storage.object_places import open_objects
open_objects(sys.argv[1]).put_file(Path(sys.argv[2]), "large")
"""


@pytest.mark.parametrize(
    "name",
    ["test_what_was_stored_comes_back", "test_an_object_that_is_gone_is_named", "test_a_record_is_written_by_one"],
)
def test_as_anywhere(name: str, bucket: Callable[[], str], tmp_path: Path) -> None:
    """What holds in a folder holds here."""
    store = open_objects(bucket())
    test = getattr(anywhere, name)
    test(*((store,) if name == "test_a_record_is_written_by_one" else (store, tmp_path)))


def test_of_many_at_once_one_makes_a_record(bucket: Callable[[], str]) -> None:
    """The server decides, by the condition of the write."""
    address = bucket()

    def write(number: int) -> bool:
        return open_objects(address).write_record("generations/one.json", bytes([number]))

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(write, range(8)))
    assert made.count(True) == 1
    assert open_objects(address).read_record("generations/one.json") == bytes([made.index(True)])


def test_a_damaged_object_is_refused_by_name(bucket: Callable[[], str], tmp_path: Path) -> None:
    """Whatever the server gives is compared with the name."""
    address = bucket()
    store = open_objects(address)
    file = store.put_bytes(b"as it was written", "kb.sqlite")
    key = f"{address.removeprefix('s3://bucket/')}/objects/{file.sha256[:2]}/{file.sha256}"
    boto3.client("s3").put_object(Bucket="bucket", Key=key, Body=b"as it was wratten")
    with pytest.raises(CorruptError, match=rf"{file.sha256} \(kb.sqlite\) has 17 bytes"):
        store.fetch(file, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_an_upload_that_is_killed_leaves_no_object(bucket: Callable[[], str], tmp_path: Path) -> None:
    """It is not there, and the next one stores it whole."""
    address = bucket()
    path = tmp_path / "large"
    with path.open("wb") as file:
        for number in range(120):
            file.write(bytes([number]) * (1 << 20))
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    child = subprocess.Popen([sys.executable, "-c", UPLOAD, address, str(path)], env=environment)
    client = boto3.client("s3")
    prefix = address.removeprefix("s3://bucket/")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        begun = client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
        if any(each["Key"].startswith(prefix) for each in begun) or child.poll() is not None:
            break
        time.sleep(0.01)
    assert child.poll() is None, "the upload ended before it could be killed"
    child.kill()
    child.wait()
    store = open_objects(address)
    assert list(store.stored()) == []
    stored = store.put_file(path, "large")
    assert store.has(stored.sha256, path.stat().st_size)
    store.fetch(stored, tmp_path / "back")
    assert (tmp_path / "back").stat().st_size == path.stat().st_size


def test_a_place_that_does_not_answer_is_named(s3: str) -> None:
    """With what was being done, and what is safe."""
    assert s3
    with pytest.raises(
        StateError, match=r"cannot write to s3://nobodys-bucket/x: .*what was published before is untouched"
    ):
        open_objects("s3://nobodys-bucket/x").write_record("generations/1.json", b"{}")
