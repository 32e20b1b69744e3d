"""Which tests `make test-quick` chooses."""

from __future__ import annotations

from tests.changed import chosen_tests, imported

TESTS = {
    "tests/storage/test_wal.py": "from storage.wal import check_wal\n",
    "tests/storage/test_reader.py": "from storage.reader import KBReader\nfrom tests.storage import small_world\n",
    "tests/web/test_keys.py": "    from web.keys import KeyFile\n",
    "tests/test_docs.py": "import click\n",
    "tests/test_layout.py": "",
}


def test_tests_that_import_what_changed_are_chosen() -> None:
    """Modules, helpers of tests, tests themselves, pages."""
    layout = "tests/test_layout.py"
    assert chosen_tests(["storage/wal.py"], TESTS) == ["tests/storage/test_wal.py", layout]
    assert chosen_tests(["web/keys.py", "docs/index.md"], TESTS) == [
        "tests/test_docs.py",
        layout,
        "tests/web/test_keys.py",
    ]
    assert chosen_tests(["tests/storage/small_world.py"], TESTS) == ["tests/storage/test_reader.py", layout]
    assert chosen_tests(["tests/storage/test_wal.py"], TESTS) == ["tests/storage/test_wal.py", layout]


def test_a_module_that_no_test_imports_is_tested_through_its_room() -> None:
    """Its folder's tests, unless they test a module that uses it."""
    sources = {"storage/reader.py": "from storage.opening import check_complete\n"}
    assert chosen_tests(["storage/opening.py"], TESTS, sources) == [
        "tests/storage/test_reader.py",
        "tests/test_layout.py",
    ]
    room = [path for path in TESTS if path.startswith("tests/storage/")]
    assert set(chosen_tests(["storage/opening.py"], TESTS)) == {*room, "tests/test_layout.py"}


def test_names_of_imports_are_read() -> None:
    """Both forms."""
    assert imported("import a.b\nfrom c import d, e\n") == {"a.b", "c", "c.d", "c.e"}
