"""What a submission writes as the answer, and in how many steps its pages are found, for data sets that want others.

Most data sets are answered by a phrase, or by what their task calls the answer. FEVER's claims get their pages: a
verdict is no text of a page; with a model of the user's they get SUPPORTS or REFUTES as well. ELI5 gets the best
sentences, as many as an explanation needs. HotpotQA's questions rest on two pages: a second search sees the first page
found and its phrase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from kbengine.inputs import Question, TaskInput
from storage.languages import language_of

if TYPE_CHECKING:
    from adapters.tasks.answerer import AnswerOptions
    from adapters.tasks.answers import TaskAnswer
    from kbengine.search.results import Hit, SearchResult

AnswerForm = Literal["phrase", "sentences", "pages", "verdict"]
"""phrase: the task's own answer; sentences: the best ones; pages: none, the pages are what is wanted; verdict: what a
model that the user trained says of a claim, SUPPORTS or REFUTES."""
ANSWER_FORMS: tuple[AnswerForm, ...] = get_args(AnswerForm)

MAX_STEPS = 2
N_SENTENCES = 3
"""Sentences of an answer: about what ELI5's ROUGE-L rewards, which loses by words that the gold answer has not."""


class Asking(Protocol):
    """What is asked."""

    def pages(self, requests: Sequence[TaskInput], options: AnswerOptions | None = None) -> list[SearchResult]:
        """Return the best documents of each request."""

    def answer(self, requests: Sequence[TaskInput], options: AnswerOptions | None = None) -> list[TaskAnswer]:
        """Return the answer to each request."""


def best_sentences(asking: Asking, requests: Sequence[TaskInput], options: AnswerOptions) -> list[str]:
    """Return the best sentences for each request, joined, best first; none is said twice."""
    wanted = replace(options, unit="sentence", k=N_SENTENCES, threshold=0.0)
    return [" ".join(dict.fromkeys(answer.text for answer in each.answers)) for each in asking.answer(requests, wanted)]


def second_step(
    asking: Asking, requests: Sequence[TaskInput], first: Sequence[SearchResult], options: AnswerOptions
) -> list[SearchResult]:
    """Return what a second search finds, which is asked with the sentence that the first one found.

    Where the first found nothing, nothing is found.

    Args:
        asking: what is asked.
        requests: questions.
        first: what the first search found for each.
        options: of both searches.
    """
    places = [i for i, result in enumerate(first) if result.hits]
    asked = [_with_first(requests[i], first[i].hits[0]) for i in places]
    found = iter(asking.pages(asked, options) if asked else [])
    return [next(found) if result.hits else result for result in first]


def of_both_steps(first: SearchResult, second: SearchResult, k: int) -> SearchResult:
    """Return the documents of two searches, each once, by turns: each gives its best that is not there yet."""
    both: dict[str, Hit] = {}
    by_turns = [iter(first.hits), iter(second.hits)]
    while by_turns:
        source = by_turns.pop(0)
        new = next((hit for hit in source if hit.document.doc_id not in both), None)
        if new is not None:
            both[new.document.doc_id] = new
            by_turns.append(source)
    hits = [replace(hit, rank=rank) for rank, hit in enumerate(both.values(), start=1)]
    return replace(first, hits=tuple(hits[:k]))


def _with_first(request: TaskInput, best: Hit) -> TaskInput:
    """Return the question with the title and the sentence of what was found for it."""
    # numpy comes with it: not for `score`
    from kbengine.corpus.sentences import covering_sentence, sentence_spans

    assert isinstance(request, Question)
    sentence = covering_sentence(sentence_spans(best.passage.text, language_of(best.document.meta)), best.phrase)
    said = best.passage.text[sentence.start : sentence.end]
    return Question(f"{request.text} {best.document.title}: {said}")
