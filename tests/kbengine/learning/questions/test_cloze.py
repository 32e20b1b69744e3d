"""Cloze questions: exact places, no given-away answers, the same for the same document whatever else is read."""

from __future__ import annotations

import dataclasses

import pytest

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Mention, Question, Slot
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.questions.answers import AnswerOptions, fraction, ranked_answers
from kbengine.learning.questions.cloze import ClozeOptions, cloze_questions, with_links
from kbengine.learning.questions.name_index import NameIndex
from kbengine.learning.questions.words import words_of
from kbengine.span import Span
from storage.alias_records import NewLink
from tests.kbengine.learning.questions.pages import EMPTY, HARROW, SELLA

ALL = AnswerOptions(per_document=100, per_passage=100)


def texts_of(example: TrainingExample) -> str:
    """Return all that a query says."""
    query = example.query
    if isinstance(query, Question):
        return query.text
    if isinstance(query, Slot):
        return f"{query.subject} {query.relation}"
    assert isinstance(query, Mention)
    return f"{query.left}{query.name}{query.right}"


def of_kind(kind: str, *documents: CorpusDocument) -> list[TrainingExample]:
    """Return all questions of one kind."""
    return list(cloze_questions(documents, ClozeOptions(ALL, mix={kind: 1.0})))


def test_every_answer_is_where_the_example_says_and_not_in_the_question() -> None:
    """Offsets are into the gold passage; the question does not hold the answer."""
    examples = [*of_kind("question", HARROW, SELLA), *of_kind("slot", HARROW, SELLA)]
    passages = [passage.text for document in (HARROW, SELLA) for passage in document.passages]

    assert len(examples) > 20
    for example in examples:
        (answer,) = example.answer_texts
        assert answer and answer in example.passage and example.passage in passages
        said = {texts_of(example)[word.start : word.end].lower() for word in words_of(texts_of(example))}
        assert not {answer[word.start : word.end].lower() for word in words_of(answer)} <= said - {"the", "of"}


def test_the_words_of_a_question_are_those_of_its_sentence() -> None:
    """Besides the title and a question word nothing is invented, and some of the words are dropped."""
    options = ClozeOptions(ALL, mix={"question": 1.0}, drop=(0.5, 0.5), title_share=0.0)
    wh = {"who", "what", "which", "where", "when", "how", "many", "much", "number", "year", "date"}
    n_said = n_there = 0
    for example in cloze_questions([HARROW, SELLA], options):
        said = [texts_of(example)[word.start : word.end] for word in words_of(texts_of(example))]
        there = [example.passage[word.start : word.end] for word in words_of(example.passage)]
        assert set(said) <= {*there, *wh}
        n_said, n_there = n_said + len(said), n_there + len(there)

    assert n_said < n_there / 2


def test_the_title_names_what_the_sentence_leaves_open() -> None:
    """With title_share 1 every question names its page, unless the page's name is what is asked for."""
    options = ClozeOptions(ALL, mix={"question": 1.0}, title_share=1.0)

    for example in cloze_questions([HARROW], options):
        assert ("Harrow Light" in texts_of(example)) != ("Harrow Light" in example.answer_texts)


def test_a_relation_is_what_stands_between_a_name_and_the_answer() -> None:
    """`designed by` between the title and its designer, or a part of it, as the relation of a slot."""
    queries = {example.answer_texts[0]: example.query for example in of_kind("relation", HARROW)}

    emil = queries["Emil Sand"]
    assert isinstance(emil, Slot)
    assert emil.subject == "Harrow Light" and "designed" in emil.relation and "Emil" not in emil.relation


def test_a_mention_is_answered_by_the_first_one_on_its_page() -> None:
    """The second passage speaks of the page's subject: linked, it leads to the first."""
    (example,) = of_kind("mention", HARROW)

    assert isinstance(example.query, Mention) and example.query.name == "Harrow Light"
    assert example.query.left.endswith("The keeper of ") and example.query.right.startswith(" kept a diary")
    assert example.passage == HARROW.passages[0].text and example.answers == (Span(0, 12),)


def links(*documents: CorpusDocument, exclude: frozenset[str] = frozenset()) -> dict[str, TrainingExample]:
    """Return the links of the first document by their mention, names of all of them."""
    options = ClozeOptions(dataclasses.replace(ALL, exclude=exclude), mix={"link": 1.0})
    found = cloze_questions(documents[:1], options, names=NameIndex(documents, exclude=exclude))
    return {example.query.name: example for example in found if isinstance(example.query, Mention)}


def test_the_name_of_another_document_is_linked_to_where_its_title_stands_first() -> None:
    """Harrow's keepers speak of Port Sella; nothing else there is a title, and no page is linked to itself."""
    found = links(HARROW, SELLA)

    assert set(found) == {"Port Sella"} and not links(SELLA, HARROW)
    example = found["Port Sella"]
    assert isinstance(example.query, Mention) and example.query.left.endswith("in the museum of ")
    assert (example.doc_id, example.title) == ("sella", "Port Sella")
    assert example.passage == SELLA.passages[0].text and example.answers == (Span(0, 10),)


def test_names_of_two_documents_and_excluded_ones_are_no_links_and_own_links_decide() -> None:
    """A second Port Sella makes the name ambiguous, unless the page itself says which it means."""
    other = dataclasses.replace(SELLA, doc_id="ship", title="Port Sella (ship)")
    by_id = dataclasses.replace(HARROW, links=(NewLink("Port Sella", "ship"),))
    by_title = dataclasses.replace(HARROW, links=(NewLink("Port Sella", "Port Sella", by_title=True),))

    assert not links(HARROW, SELLA, other) and not links(HARROW, SELLA, exclude=frozenset(("sella",)))
    assert links(by_id, SELLA, other)["Port Sella"].doc_id == "ship"
    assert links(by_title, SELLA, other)["Port Sella"].doc_id == "sella"


def test_links_want_the_names_of_the_documents() -> None:
    """Without them nothing could be linked to."""
    with pytest.raises(InvalidOptionError, match="need the names"):
        cloze_questions([HARROW], with_links(ClozeOptions()))


def test_a_document_gives_the_same_whatever_else_is_read_and_however_many_are_wanted() -> None:
    """Order and neighbours change nothing; fewer are the first of more; another seed gives others."""
    both = list(cloze_questions([HARROW, EMPTY, SELLA], ClozeOptions(ALL)))
    alone = list(cloze_questions([SELLA], ClozeOptions(ALL)))
    few = list(cloze_questions([SELLA], ClozeOptions(AnswerOptions(per_document=3, per_passage=100))))
    other = list(cloze_questions([SELLA], ClozeOptions(dataclasses.replace(ALL, seed=1))))

    assert [each for each in both if each.doc_id == "sella"] == alone
    assert few == alone[:3]
    assert other != alone
    assert len({each.id for each in both}) == len(both)


def test_no_more_questions_than_asked_for() -> None:
    """Per document and per passage."""
    options = ClozeOptions(AnswerOptions(per_document=3, per_passage=2), mix={"question": 1.0})
    examples = list(cloze_questions([HARROW], options))

    assert len(examples) == 3
    assert max(sum(each.passage == passage.text for each in examples) for passage in HARROW.passages) == 2


def test_excluded_and_empty_documents_give_nothing_and_are_counted() -> None:
    """The report has all documents, the excluded ones and those without a question apart."""
    questions = cloze_questions([HARROW, SELLA, EMPTY], ClozeOptions(AnswerOptions(exclude=frozenset({"harrow"}))))
    examples = list(questions)

    assert {each.doc_id for each in examples} == {"sella"}
    report = questions.report
    assert (report.documents, report.excluded_documents, report.barren_documents) == (3, 1, 1)
    assert report.questions == report.kept == len(examples) == sum(report.kinds.values())
    assert sum(report.answer_kinds.values()) == len(examples)


def test_links_of_a_kilt_page_are_answers() -> None:
    """By paragraph and offsets, also in the parts of a split paragraph and in the columns of the other copy."""
    text = "The old quay was built by stonecutters of the lower valley long ago."
    at = text.index("stonecutters of the lower valley")
    entry = {"paragraph_id": 4, "start": at + 10, "end": at + 42, "text": "stonecutters of the lower valley"}
    passage = CorpusPassage(4, text, None, 10)
    columns = {"paragraph_id": [4], "start": [at + 10], "end": [at + 42]}
    for meta in ({"anchors": [entry, {"paragraph_id": 9}]}, {"anchors": columns}):
        document = CorpusDocument("quay", "Quay", meta=meta, passages=(passage,))
        kinds = {answer.text: answer for answer in ranked_answers(document, ALL)}
        assert kinds["stonecutters of the lower valley"].kind == "anchor"
        assert kinds["stonecutters of the lower valley"].place == f"4:{at + 10}-{at + 42}"


def test_other_languages_need_no_word_list() -> None:
    """German, and Japanese without spaces or capitals."""
    german = CorpusDocument(
        "de",
        "Harrow-Feuer",
        passages=(CorpusPassage(1, "Der Turm wurde 1851 von Emil Sand aus grauem Granit am Hafen von Sella gebaut."),),
    )
    japanese = CorpusDocument(
        "ja",
        "灯台",
        passages=(CorpusPassage(1, "この灯台は1851年に「九つの冬」を書いた技師によって港の北に建てられた。"),),
    )
    for document, language, answer in ((german, "de", "Emil Sand"), (japanese, "ja", "九つの冬")):
        answers = dataclasses.replace(ALL, language=language)
        assert answer in {each.text for each in ranked_answers(document, answers)}
        assert list(cloze_questions([document], ClozeOptions(answers)))


def test_text_with_the_marks_of_kilt_rows_is_not_used() -> None:
    """A passage that holds [SEP] could not be told from a slot."""
    passage = CorpusPassage(1, "The mark [SEP] was put by Emil Sand between the two old names of Port Sella.")

    assert list(cloze_questions([CorpusDocument("mark", "Mark", passages=(passage,))])) == []


def test_kind_weights_are_obeyed() -> None:
    """A kind of weight 0 never comes; the order follows the weights: exact for two answers, log(u)/w each."""
    only_dates = dataclasses.replace(ALL, kinds={"date": 1.0, "name": 0.0})
    answers = ranked_answers(SELLA, only_dates)

    assert {answer.kind for answer in answers} == {"date"}
    chances = [fraction(0, "sella", answer.place) for answer in answers]
    assert chances == sorted(chances, reverse=True) and all(0 < chance < 1 for chance in chances)


@pytest.mark.parametrize(
    "options",
    [
        lambda: AnswerOptions(per_document=0),
        lambda: AnswerOptions(kinds={"verb": 1.0}),
        lambda: AnswerOptions(kinds={"date": 0.0}),
        lambda: ClozeOptions(mix={"riddle": 1.0}),
        lambda: ClozeOptions(mix={"slot": float("nan")}),
        lambda: ClozeOptions(drop=(0.5, 1.0)),
        lambda: ClozeOptions(drop=(0.6, 0.5)),
        lambda: ClozeOptions(title_share=1.5),
    ],
)
def test_options_out_of_range_are_refused(options) -> None:
    """With the value seen and the value wanted."""
    with pytest.raises(InvalidOptionError, match=r"wanted|give one a weight"):
        options()
