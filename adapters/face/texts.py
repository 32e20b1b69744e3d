"""The face's work on whole texts and tables: mentions found and linked, cells filled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from adapters.annotating.annotator import AnnotateOptions, annotator_for
from adapters.annotating.linked import AnnotatedText
from adapters.face.opened import Opened
from adapters.filling.filler import Filler, FillOptions, asking
from adapters.filling.filling import FillReport, fill_file, fill_rows
from kbengine.errors import InvalidOptionError
from kbengine.progress import Stages, progress_for_terminal


class Texts(Opened):
    """What works on whole texts and tables."""

    @overload
    def fill(self, table: Sequence[dict[str, Any]], **options: Any) -> list[dict[str, Any]]: ...

    @overload
    def fill(self, table: str | Path, out: str | Path, **options: Any) -> FillReport: ...

    def fill(  # type: ignore[misc]  # the overloads leave the options to this signature
        self,
        table: str | Path | Sequence[dict[str, Any]],
        out: str | Path | None = None,
        *,
        subject: str | None = None,
        relations: Sequence[str] = (),
        question: str | None = None,
        context: str | None = None,
        ids: str | None = None,
        values: int = 1,
        threshold: float | None = None,
        where: str | None = None,
        evidence: bool = True,
        encoder: str | None = None,
        read: int | None = None,
        progress: bool = False,
    ) -> FillReport | list[dict[str, Any]]:
        """Fill a table: of each name its document and the relations that are wanted, or an answer to each question.

        Rows at hand come back with their cells filled; cells that hold something stay as they are:

        >>> (row,) = kb.fill([{"name": "Marie Curie"}], subject="name", relations=["place of birth"])
        >>> row["name id"], row["place of birth"], row["place of birth document"]
        ('marie-curie', 'Warsaw', 'marie-curie')

        A file (CSV, TSV, Excel, Parquet) is filled into another file; called again it goes on where it was interrupted:

        >>> table = new_folder.with_name("questions.csv")
        >>> n = table.write_text("question\\nWhat was the programming language Java called at first?\\n")
        >>> report = kb.fill(table, table.with_name("answers.csv"), question="question", evidence=False)
        >>> report.rows, table.with_name("answers.csv").read_text().splitlines()[1].split(",")[1]
        (1, 'Oak')

        Args:
            table: rows as mappings, or a file.
            out: where a filled file goes; nothing is there yet.
            subject: the column of names.
            relations: what is wanted of each: a name, free text, a Wikidata id such as P19, or a wording with X.
            question: the column of questions, instead of names and relations.
            context: a column of text that says who is meant.
            ids: a column of ids of documents, where it is known who is meant.
            values: how many values a cell may have, 1 to 10.
            threshold: the probability that an answer has to reach; None takes the task's own.
            where: a filter over the fields of documents.
            evidence: whether the sentence and document of each answer are given.
            encoder: the name of a tuned encoder.
            read: how many of the best passages are read for each answer, 0 to 100; None takes what pays for the task.
            progress: show progress on stderr.

        Raises:
            TableError: the table cannot be read, a column is missing, or `out` is there already.
            MissingExtraError: a library for Excel or Parquet is not installed.
            InvalidOptionError: an option is out of its range.
            UnknownRelationError: a relation is a Wikidata id that the table of relations lacks.
        """
        options = FillOptions(
            subject, tuple(relations), question, context, ids, values, threshold, where, evidence, encoder, read
        )
        filler = Filler(options, asking(self._answerer), self._engine.reader)
        with progress_for_terminal(quiet=not progress) as sink:
            stages = Stages(sink)

            def tell(done: int, total: int) -> None:
                stages("rows filled", done, total)

            if not isinstance(table, str | Path):
                if out is not None:
                    raise InvalidOptionError("rows at hand are returned, wanted no `out`; give a file as the table")
                return fill_rows(table, filler, options, progress=tell)
            if out is None:
                raise InvalidOptionError("`out` is missing, wanted where the filled table goes")
            return fill_file(Path(table), Path(out), filler, options, progress=tell)

    def annotate(
        self,
        text: str,
        *,
        threshold: float = AnnotateOptions.threshold,
        candidates: int = AnnotateOptions.candidates,
        unlinked: bool = True,
        where: str | None = None,
        progress: bool = False,
    ) -> AnnotatedText:
        """Find the mentions of a text that has no marks, and link those of the same text together.

        >>> found = kb.annotate("Marie Curie was born in Warsaw.")
        >>> [(each.text, each.link.title) for each in found.links]
        [('Marie Curie', 'Marie Curie'), ('Warsaw', 'Warsaw')]

        Args:
            text: any text, of any length.
            threshold: the probability, 0 to 1, that a link has to reach. Lower-case words that are titles as well are
                looked at with 0.3 or less.
            candidates: how many documents are given with each mention, 1 to 10.
            unlinked: whether names without a link are given, too, with the reason.
            where: a filter over the fields of documents.
            progress: show progress on stderr.

        Raises:
            InvalidOptionError: an option is out of its range.
        """
        options = AnnotateOptions(threshold=threshold, candidates=candidates, unlinked=unlinked, where=where)
        with progress_for_terminal(quiet=not progress) as sink:
            stages = Stages(sink)
            annotator = annotator_for(self._answerer, self._engine)
            found = annotator.annotate(
                text, options, progress=lambda done, total: stages("characters annotated", done, total)
            )
            return AnnotatedText(text, tuple(found))
