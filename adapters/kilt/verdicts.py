"""Verdicts on claims: the best passages found for each are read by a model that the user trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kbengine.errors import InvalidOptionError
from kbengine.inputs import Question, TaskInput

if TYPE_CHECKING:
    from adapters.kilt.answer_forms import AnswerForm
    from kbengine.encoders.encoder import PassageText
    from kbengine.search.results import SearchResult
    from kbengine.verdicts.verdict import Judgement


class Judging(Protocol):
    """What judges claims: a `kbengine.verdicts.judge.Judge`."""

    @property
    def fingerprint(self) -> str:
        """Return what tells one model from another."""

    @property
    def n_passages(self) -> int:
        """Return how many of the best passages found for a claim should be given."""

    def judge(
        self, claims: Sequence[Question], passages: Sequence[Sequence[PassageText]], *, truncate: bool = False
    ) -> list[Judgement | None]:
        """Return what the passages say about each claim; None where there is none."""


def judgements(judge: Judging, requests: Sequence[TaskInput], found: Sequence[SearchResult]) -> list[Judgement | None]:
    """Return what the best passages found for each claim say about it; None where nothing was found.

    Args:
        judge: the model.
        requests: claims, as questions.
        found: the documents found for each, with their best passages.
    """
    from kbengine.encoders.encoder import PassageText  # torch comes with it: not for `score`

    claims = [request for request in requests if isinstance(request, Question)]
    passages = [
        [PassageText(hit.document.title, hit.passage.text) for hit in result.hits[: judge.n_passages]]
        for result in found
    ]
    return judge.judge(claims, passages, truncate=True)


def check_judge(answer: AnswerForm | None, judge: Judging | None) -> None:
    """Check that verdicts are asked for where there is a model for them, and only there.

    Raises:
        InvalidOptionError: there is a model and another answer is asked for, or the other way round.
    """
    if answer == "verdict" and judge is None:
        raise InvalidOptionError(
            "verdicts were asked for and there is no model that gives them; train one with 'kbengine train verdict' "
            "and pass it (--verdict MODEL), or ask for pages"
        )
    if answer != "verdict" and judge is not None:
        raise InvalidOptionError(f"a verdict model was given and the answer is {answer!r}; leave one of them out")
