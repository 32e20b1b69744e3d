"""The face's corrections: what people say about answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adapters.face.opened import Opened
from adapters.tasks.feedback import Judged, feedback_on
from kbengine.inputs import Task, TaskInput
from kbengine.text_form import asked_for

if TYPE_CHECKING:
    from storage.feedback_records import FeedbackRecord
    from storage.feedback_rows import FeedbackChange


class Correcting(Opened):
    """What keeps people's corrections."""

    def feedback(
        self,
        asked: str | TaskInput,
        *,
        right: Judged | Sequence[Judged] | None = None,
        wrong: Judged | Sequence[Judged] | None = None,
        document: str | None = None,
        paragraph: int | None = None,
        task: Task = "question",
    ) -> FeedbackChange:
        """Say which answers are right or wrong; `kbengine feedback export` makes rows of it that `tune` learns from.

        Of the same answer to the same question the last word counts.

        >>> said = kb.feedback("Where was Marie Curie born?", right="Warsaw", wrong="Paris", document="marie-curie")
        >>> len(said.ids)
        2
        >>> answer = kb.ask("What was the programming language Java called at first?")
        >>> len(kb.feedback("What was the programming language Java called at first?", right=answer.best).ids)
        1

        Args:
            asked: what was asked, as in `ask`.
            right: right answers: those that `ask` gave, or texts.
            wrong: wrong answers, likewise.
            document: id of the document that answers given as texts are or stand in: the right ones, without any the
                wrong ones. The right answer to a mention or dialogue is a document.
            paragraph: the number of their paragraph in it.
            task: what a text is.

        Raises:
            InvalidOptionError: nothing is judged, a text cannot be stored, or a document is missing.
            LockedError: another process is writing.
        """
        new = feedback_on(asked_for(asked, task), right=right, wrong=wrong, document=document, paragraph=paragraph)
        return self._engine.add_feedback(new)

    def list_feedback(self, *, task: Task | None = None) -> list[FeedbackRecord]:
        """Return what was said about answers, oldest first.

        >>> [(each.answer, each.verdict) for each in kb.list_feedback()][:2]
        [('Warsaw', 'right'), ('Paris', 'wrong')]

        Args:
            task: only what is about this task.
        """
        return self._engine.reader.list_feedback(task=task)

    def delete_feedback(self, ids: Sequence[int]) -> FeedbackChange:
        """Delete what was said about answers, by its numbers.

        >>> said = kb.feedback("Where was Marie Curie born?", wrong="Paris", document="marie-curie")
        >>> kb.delete_feedback(said.ids).ids == said.ids
        True

        Raises:
            UnknownFeedbackError: there is none of one of these numbers; then none is deleted.
        """
        return self._engine.delete_feedback(ids)
