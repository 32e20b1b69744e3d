"""The face: what `from kbengine import …` gives, its examples, and how light it is."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import kbengine
from kbengine import KnowledgeBase, Mention, Question, Slot
from kbengine.errors import CorpusError, InvalidOptionError, TaskInputError

FACE = (
    "adapters.knowledge_base",
    "adapters.face.changing",
    "adapters.face.correcting",
    "adapters.face.describing",
    "adapters.face.texts",
)
MODULES = ("kbengine", *FACE, "kbengine.inputs", "kbengine.text_form", "kbengine.search.query")


@pytest.fixture(scope="module")
def folder(module_demo_kb) -> Path:
    """The directory of the bundled knowledge base, built by the face."""
    return module_demo_kb


@pytest.fixture(scope="module")
def kb(folder):
    """The bundled knowledge base, open."""
    with KnowledgeBase.open(folder) as knowledge_base:
        yield knowledge_base


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_docstrings_print_what_they_show(name, folder, tmp_path) -> None:
    """With the bundled knowledge base open as `kb`: once a module, again for what closes it, which comes last."""
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = {each: getattr(kbengine, each) for each in kbengine.__all__}
    names |= {"folder": folder, "new_folder": tmp_path / "new"}
    with contextlib.ExitStack() as opened:
        for example in sorted(finder.find(module, name), key=lambda test: "close" in test.name):
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            if "close" in example.name or ("kb" not in names and "kb" in (example.docstring or "")):
                opened.close()
                names["kb"] = opened.enter_context(KnowledgeBase.open(folder))
            example.globs = {**vars(module), **names}
            runner.run(example, clear_globs=False)
            assert runner.summarize(verbose=False).failed == 0, example.name


def test_every_public_method_has_an_example() -> None:
    """And opens with a sentence of its own."""
    methods = {name: each for part in KnowledgeBase.__mro__[-2::-1] for name, each in vars(part).items()}
    for name, method in methods.items():
        if name.startswith("_") or name == "engine":
            continue
        text = (method.__func__ if isinstance(method, classmethod) else method).__doc__
        assert text and ">>> " in text and text.split("\n")[0].endswith((".", ":"))


def test_all_names_are_exported_and_nothing_else() -> None:
    """`__all__` is what can be imported, each name from its home."""
    homes = {name for names in kbengine._HOMES.values() for name in names}
    assert set(kbengine.__all__) == homes | {"__version__"}
    assert all(getattr(kbengine, name) is not None for name in kbengine.__all__)
    assert dir(kbengine) == sorted(kbengine.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = kbengine.Nothing


def test_importing_the_face_imports_nothing_heavy() -> None:
    """Names come when they are used."""
    code = "import sys, kbengine; print({'torch', 'numpy', 'flask', 'adapters', 'storage', 'click'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent
    )
    assert done.stdout.strip() == "set()"


def test_one_or_several_of_any_task_are_asked(kb) -> None:
    """Each as it would be alone, but for the last bits of its score: vectors are encoded together."""
    asked = ["Who wrote The Trial?", Slot("Marie Curie", "P19"), Mention("Born in Ulm.", (8, 11)), Question("Who?")]
    together = kb.ask(asked, k=3)
    alone = [kb.ask(each, k=3) for each in asked]
    for one, among in zip(alone, together, strict=True):
        assert [answer.text for answer in one.answers] == [answer.text for answer in among.answers]
        assert [answer.score for answer in one.answers] == pytest.approx([answer.score for answer in among.answers])
    assert [each.task for each in together] == ["question", "slot-filling", "entity-linking", "question"]


@pytest.mark.parametrize(
    "asked", ["What was the programming language Java called at first?", Slot("Frida Kahlo", "spouse")]
)
def test_an_answer_and_its_score_do_not_depend_on_how_many_are_asked_for(kb, asked) -> None:
    """A longer list begins with the shorter one."""
    lists = [kb.ask(asked, k=k).answers for k in (1, 3, 10, 60, 400)]
    for short, long in itertools.pairwise(lists):
        assert short == long[: len(short)]
    assert kb.search(asked, k=5).hits == kb.search(asked, k=70).hits[:5]


def test_weights_left_out_are_the_tasks_own(kb) -> None:
    """One weight given as it is by default changes nothing; another does."""
    plain = kb.ask(Slot("Marie Curie", "P19"), k=3).answers
    assert kb.ask(Slot("Marie Curie", "P19"), k=3, weights={"lexical": 3.0}).answers == plain
    assert kb.ask(Slot("Marie Curie", "P19"), k=3, weights={"lexical": 0.0}).answers != plain
    with pytest.raises(InvalidOptionError, match=r"'words', wanted some of phrase, passage"):
        kb.ask("Who?", weights={"words": 1.0})


def test_the_subject_is_not_offered_where_it_cannot_be(kb) -> None:
    """Nobody is their own spouse, whatever the number of answers."""
    for k in (1, 5, 20):
        answers = kb.ask(Slot("Frida Kahlo", "spouse"), k=k).answers
        assert len(answers) == k
        assert "Frida Kahlo" not in [answer.text for answer in answers]


def test_what_cannot_be_asked_or_built_is_told(kb, tmp_path) -> None:
    """With the value seen and the value wanted."""
    with pytest.raises(TaskInputError, match="a span is 7, wanted two offsets"):
        Mention("text", 7)
    with pytest.raises(InvalidOptionError, match="k is 0, wanted 1 to 1000"):
        kb.ask("Who?", k=0)
    with pytest.raises(CorpusError, match=r"one path, 'pages.jsonl', wanted a list"):
        KnowledgeBase.build(tmp_path / "kb", "pages.jsonl")
    with pytest.raises(CorpusError, match="part 0 of the corpus is int"):
        KnowledgeBase.build(tmp_path / "kb", [3])
    with pytest.raises(CorpusError, match=r"document 0 .*cannot be written as JSON"):
        KnowledgeBase.build(tmp_path / "kb", [{"id": "a", "title": "A", "text": b"bytes"}])
