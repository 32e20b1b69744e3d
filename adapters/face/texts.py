"""The face's work on whole texts: mentions found and linked."""

from __future__ import annotations

from adapters.annotating.annotator import AnnotateOptions, annotator_for
from adapters.annotating.linked import AnnotatedText
from adapters.face.opened import Opened
from kbengine.progress import Stages, progress_for_terminal


class Texts(Opened):
    """What works on whole texts."""

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
