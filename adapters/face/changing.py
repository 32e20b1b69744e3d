"""The face's changes: documents, names and folders, durable when a call returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.face.opened import Opened

if TYPE_CHECKING:
    from kbengine.build.sync import SyncReport
    from kbengine.corpus.document import CorpusDocument
    from storage.alias_changes import AliasChange
    from storage.records import Commit

Document = Mapping[str, Any]
"""A document as a mapping with `id`, `title`, `text` and optionally `url`, `meta` and `aliases`."""


class Changing(Opened):
    """What changes a knowledge base."""

    def add(self, documents: Iterable[CorpusDocument | Document], *, replace: bool = True) -> Commit:
        """Add documents; they are durable when this returns, and found from the next question on.

        >>> mill = {"id": "quillmere", "title": "Quillmere", "text": "The mill of Quillmere was built in 1764."}
        >>> kb.add([mill]).documents_added
        1
        >>> kb.ask("When was the mill of Quillmere built?").best.text
        '1764'

        Args:
            documents: mappings with `id`, `title`, `text` (paragraphs apart by blank lines, or a list of them) and
                optionally `url`, `meta` and `aliases`.
            replace: whether a document takes the place of one with its id; otherwise that is an error.

        Raises:
            DuplicateDocumentError: an id comes twice, or exists and `replace` is off.
            LockedError: another process is writing.
            StorageFullError: no space; nothing was changed.
        """
        return self._engine.add(documents, replace=replace)

    def sync(
        self,
        corpus: str | Path | Sequence[str | Path],
        *,
        source: str | None = None,
        prefix: str = "",
        format: str | None = None,
        skip_bad: bool = False,
        adopt: bool = False,
        allow_empty: bool = False,
        delete_most: bool = False,
        dry_run: bool = False,
        progress: bool = True,
    ) -> SyncReport:
        """Keep the documents of a folder or feed in step with it: add what is new, replace changed, delete gone ones.

        >>> places = new_folder.with_name("places")
        >>> places.mkdir()
        >>> n = (places / "ulm.txt").write_text("Ulm lies on the Danube.")
        >>> kb.sync(places).added
        ['ulm.txt']
        >>> kb.sync(places).unchanged
        1
        >>> kb.delete(["ulm.txt"]).documents_deleted
        1

        Args:
            corpus: a folder or a file in any format that `kbengine build` reads, or several.
            source: its name; by default its absolute path. Documents of other sources are not touched.
            prefix: put before the id of each document.
            format: of all files; by default each one's own is detected.
            skip_bad: pass over records of a feed that cannot be read; nothing is deleted then.
            adopt: take over documents of the same id that came from elsewhere.
            allow_empty: delete all documents of the source if it is empty or not there.
            delete_most: delete more than half of the source's documents.
            dry_run: only compare.
            progress: show progress on stderr.

        Raises:
            EmptyCorpusError: the source is empty or not there, and `allow_empty` is not set.
            CorpusError: it cannot be read, or so much is gone that it has to be confirmed.
            DuplicateDocumentError: a document of the same id came from elsewhere, and `adopt` is not set.
            LockedError: another process is writing.
        """
        from kbengine.build.builder import CorpusOptions
        from kbengine.build.sync import SyncOptions
        from kbengine.progress import progress_for_terminal

        given = [corpus] if isinstance(corpus, str | Path) else corpus
        options = SyncOptions(
            CorpusOptions(tuple(map(Path, given)), format, skip_bad, source, prefix),
            adopt=adopt,
            allow_empty=allow_empty,
            delete_most=delete_most,
            dry_run=dry_run,
        )
        with progress_for_terminal(quiet=not progress) as sink:
            return self._engine.sync(options, progress=sink)

    def delete(self, doc_ids: Sequence[str]) -> Commit:
        """Delete documents; none of them is in an answer from the next question on.

        >>> kb.delete(["quillmere"]).documents_deleted
        1

        Raises:
            UnknownDocumentError: an id is not there; then nothing is deleted.
        """
        return self._engine.delete(doc_ids)

    def add_aliases(self, doc_id: str, aliases: Sequence[str], *, prior: float | None = None) -> AliasChange:
        """Give a document other names, which count from the next question on.

        >>> kb.add_aliases("frida-kahlo", ["La heroína del dolor"]).aliases
        1

        Args:
            doc_id: the document.
            aliases: the names.
            prior: probability that such a name means this document; None has it counted.

        Raises:
            UnknownDocumentError: no document has the id.
            DuplicateAliasError: it has one of the names already.
        """
        return self._engine.add_aliases(doc_id, aliases, prior=prior)

    def compact(self, *, purge: bool = False) -> None:
        """Merge segments, drop deleted documents for good and give their space back.

        >>> kb.compact()

        Args:
            purge: also overwrite the space that deleted texts took in the database.
        """
        self._engine.compact(purge=purge)
