"""The face's cards: what is known about one entity."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.face.opened import Opened
from adapters.profiles.card import Profile
from adapters.profiles.profiler import ProfileOptions, Profiler
from kbengine.errors import InvalidOptionError


class Describing(Opened):
    """What describes entities."""

    def profile(
        self,
        name: str | None = None,
        *,
        doc_id: str | None = None,
        relations: Sequence[str] | None = None,
        n_relations: int = ProfileOptions.n_relations,
        threshold: float = ProfileOptions.threshold,
        where: str | None = None,
    ) -> Profile:
        """Return an entity's card: its names, its first sentence, and the relations that its kind usually has.

        >>> card = kb.profile("Marie Curie")
        >>> card.entity.title, card.fact("P570").values[0].text
        ('Marie Curie', '4 July 1934')

        A name that several documents have gives them to choose from:

        >>> kb.profile("Lincoln").status
        'ambiguous'

        Args:
            name: a title, another name, or the id of a document.
            doc_id: the id alone, instead of a name.
            relations: ask for these, by id, name or own wording; None asks for the usual ones.
            n_relations: how many of the usual ones, 1 to 64.
            threshold: the least probability, 0 to 1, of a value that is shown.
            where: a filter over the fields of the documents that may answer.

        Raises:
            InvalidOptionError: an option is out of its range, or not one of name and id is given.
            UnknownDocumentError: no document has the id.
            UnknownRelationError: a relation is a Wikidata id that the table lacks.
        """
        options = ProfileOptions(
            relations=None if relations is None else tuple(relations),
            n_relations=n_relations,
            threshold=threshold,
            where=where,
        )
        if (name is None) == (doc_id is None):
            raise InvalidOptionError("wanted either a name or doc_id, the id of a document")
        profiler = Profiler(self._engine.reader, self._answerer.answer)
        return profiler.profile(name, options) if name is not None else profiler.profile_of(doc_id or "", options)
