"""The face of kbengine: one knowledge base that is asked, searched and changed from Python.

`from kbengine import KnowledgeBase` gives this class. It asks as the command line, the service and the page do, so that
all four give the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from adapters.face.changing import Changing, Document
from adapters.face.correcting import Correcting
from adapters.face.describing import Describing
from adapters.face.exporting import Exporting
from adapters.face.texts import Texts
from adapters.tasks.answerer import AnswerOptions
from adapters.tasks.answers import TaskAnswer
from kbengine.inputs import Task, TaskInput
from kbengine.knowledge_base import KnowledgeBase as Engine
from kbengine.knowledge_base import KnowledgeBaseOptions
from kbengine.reading.location import DEFAULT_READER
from kbengine.search.query import Effort, SearchOptions, Strategy, Unit, Weights, some_weights
from kbengine.search.results import SearchResult
from kbengine.text_form import asked_for

if TYPE_CHECKING:
    from kbengine.build.storing import StoredTokens
    from kbengine.encoders.device import DTypeChoice
    from kbengine.encoders.encoder import Encoder
    from storage.backup import BackupReport
    from storage.information import KBInfo
    from storage.verify import VerifyReport


class KnowledgeBase(Changing, Correcting, Describing, Exporting, Texts):
    """A knowledge base on disk: build or open it, ask it, change it.

    >>> with KnowledgeBase.open(folder) as kb:
    ...     answer = kb.ask("What was the programming language Java called at first?")
    >>> answer.best.text
    'Oak'

    Asking takes no lock and sees every commit, also of other processes, from the next call on. The first change takes
    the writer's lock and keeps it until `close`. All methods may be called from several threads at once.
    """

    @classmethod
    def build(
        cls,
        path: str | Path,
        corpus: Iterable[str | Path | Document],
        *,
        format: str | None = None,
        skip_bad: bool = False,
        keep_fraction: float | None = None,
        index: str | None = None,
        store: StoredTokens = "all",
        code_bits: int = 4,
        encoder: Encoder | str | None = None,
        device: str = "auto",
        dtype: DTypeChoice = "auto",
        progress: bool = True,
    ) -> Self:
        """Build a knowledge base in the directory `path` and open it; called again it resumes an interrupted build.

        >>> pages = [{"id": "ulm", "title": "Ulm", "text": "Ulm lies on the Danube."}]
        >>> with KnowledgeBase.build(new_folder, pages) as kb:
        ...     print(kb.ask("On which river does Ulm lie?").best.text)
        Danube

        Args:
            path: the directory, not there yet, empty, or of an interrupted build.
            corpus: files and folders in any format that `kbengine build` reads, or documents as mappings with `id`,
                `title`, `text` and optionally `url`, `meta` and `aliases`.
            format: of all files; by default each one's own is detected.
            skip_bad: count records that cannot be read instead of stopping at the first.
            keep_fraction: index this share of the tokens, the best by the encoder's filter; by default half.
            index: the kind of index; by default `ivf-sq8`, `opq-fastscan` where many vectors are indexed.
            store: `all` tokens, so that each can begin or end an answer, or those that are `indexed` alone.
            code_bits: of a stored dimension, 4 (on the average) or 8.
            encoder: an encoder, or the name or directory of one; by default `minilm-phrase`.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            dtype: of the matrix products; `auto` takes what is fastest here.
            progress: show progress on stderr.

        Raises:
            KnowledgeBaseExistsError: the directory holds a complete knowledge base or something else.
            CorpusError: the corpus is empty, or has a record that cannot be read (unless `skip_bad`).
            StorageFullError: no space; what was committed stays, and the build can be resumed.
        """
        from kbengine.build.builder import CorpusOptions, build
        from kbengine.build.filtering import DEFAULT_FILTER, FilterOptions
        from kbengine.build.storing import StoreOptions
        from kbengine.corpus.written import corpus_paths
        from kbengine.encoders.encoder import Encoder
        from kbengine.progress import progress_for_terminal

        if encoder is None or isinstance(encoder, str):
            encoder = Encoder.load(encoder or "minilm-phrase", device=device, dtype=dtype)
        with corpus_paths(corpus) as paths, progress_for_terminal(quiet=not progress) as sink:
            build(
                CorpusOptions(tuple(paths), format, skip_bad),
                Path(path),
                encoder=encoder,
                filter_options=DEFAULT_FILTER if keep_fraction is None else FilterOptions(keep_fraction=keep_fraction),
                ann={} if index is None else {"kind": index},
                store=StoreOptions(store, code_bits),
                progress=sink,
            )
        return cls.open(path, encoder=encoder)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        encoder: Encoder | str | None = None,
        device: str = "auto",
        dtype: DTypeChoice = "auto",
        reader: str = DEFAULT_READER,
    ) -> Self:
        """Open the knowledge base in the directory `path`, ready to answer.

        >>> KnowledgeBase.open(folder).info().documents
        133

        Args:
            path: the directory.
            encoder: the name of one tuned for this knowledge base, or of a model, which then answers every task; by
                default the one it was built with, and where tuned ones are bundled for single tasks, these.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            dtype: of the matrix products; `auto` takes what is fastest here.
            reader: what reads the best passages: a bundled one's name, or a directory.

        Raises:
            NotAKnowledgeBaseError: there is none.
            BuildIncompleteError: its build was interrupted.
            EncoderMismatchError: the encoder makes other passage vectors than the stored ones.
            CorruptError: a file is not what was written.
        """
        options = KnowledgeBaseOptions(device=device, dtype=dtype, reader=reader)
        return cls(Engine.open(path, encoder, options=options))

    @property
    def engine(self) -> Engine:
        """Return the engine underneath: encoders, settings, listings, snapshots."""
        return self._engine

    @overload
    def ask(self, asked: str | TaskInput, **options: Any) -> TaskAnswer: ...

    @overload
    def ask(self, asked: Sequence[str | TaskInput], **options: Any) -> list[TaskAnswer]: ...

    def ask(  # type: ignore[misc]  # the overloads leave the options to this signature
        self,
        asked: str | TaskInput | Sequence[str | TaskInput],
        *,
        task: Task = "question",
        k: int = 10,
        threshold: float | None = None,
        unit: Unit | None = None,
        weights: Weights | Mapping[str, float] | None = None,
        effort: Effort = "normal",
        nprobe: int | None = None,
        strategy: Strategy | None = None,
        read: int | None = None,
        max_phrase_tokens: int | None = None,
        where: str | None = None,
        explain: bool = False,
        truncate: bool = False,
        encoder: str | None = None,
    ) -> TaskAnswer | list[TaskAnswer]:
        """Ask one thing or several, of any task, and return the distinct answers of each, best first.

        >>> answer = kb.ask(Slot("Marie Curie", "place of birth"), k=3)
        >>> answer.best.text, answer.best.evidence[0].document.title
        ('Warsaw', 'Marie Curie')

        Several are answered in order, each as it would be alone; tasks may be mixed:

        >>> [each.best.text for each in kb.ask([Slot("Marie Curie", "P19"), Mention("Frida Kahlo painted.", (0, 11))])]
        ['Warsaw', 'Frida Kahlo']

        A text is a question; with `task` it is that task's text form, as in KILT's `input`:

        >>> kb.ask("Marie Curie [SEP] place of birth", task="slot-filling", k=1).best.text
        'Warsaw'

        Args:
            asked: a text, a `Question`, `Slot`, `Mention` or `Dialogue`, or a sequence of them.
            task: what texts are.
            k: distinct answers wanted, 1 to 1000.
            threshold: the probability, 0 to 1, that the best answer has to reach; 0 answers always, None takes the
                task's own.
            unit: what an answer is: `phrase`, `sentence`, `passage` or `document`; None takes the task's own.
            weights: of the signals, such as `{"lexical": 4}`; what is left out is the task's own.
            effort: how many candidates are looked at: `low`, `normal`, `high` or `exact`.
            nprobe: clusters probed per segment, instead of `effort`.
            strategy: where candidates come from: `dense`, `dfs`, `sfs` or `hybrid`.
            read: how many of the best passages a reader reads together with what is asked; 0 reads none.
            max_phrase_tokens: the longest phrase that is an answer, 1 to 64 tokens.
            where: a filter over the fields of documents, such as `"source = 'manual' and date >= '2020-01-01'"`.
            explain: give the parts of each score.
            truncate: cut a text that is too long for the encoder instead of refusing it.
            encoder: the name of an encoder tuned for this knowledge base.

        Raises:
            TaskInputError: what is asked has not the form that its task wants.
            QueryError: it is empty or longer than the encoder takes.
            UnknownRelationError: a slot's relation is a Wikidata id that the table lacks.
            InvalidOptionError: an option is out of its range.
        """
        options = AnswerOptions(
            k=k,
            unit=unit,
            weights=some_weights(weights),
            effort=effort,
            nprobe=nprobe,
            max_phrase_tokens=max_phrase_tokens,
            where=where,
            explain=explain,
            truncate=truncate,
            strategy=strategy,
            read=read,
            encoder=encoder,
            threshold=threshold,
        )
        if isinstance(asked, Sequence) and not isinstance(asked, str):
            return self._answerer.answer([asked_for(each, task) for each in asked], options)
        return self._answerer.answer([asked_for(asked, task)], options)[0]

    def search(
        self,
        asked: str | TaskInput,
        *,
        k: int = 10,
        unit: Unit | None = None,
        weights: Weights | Mapping[str, float] | None = None,
        effort: Effort = "normal",
        nprobe: int | None = None,
        strategy: Strategy | None = None,
        read: int | None = None,
        max_phrase_tokens: int | None = None,
        where: str | None = None,
        explain: bool = False,
        truncate: bool = False,
        encoder: str | None = None,
    ) -> SearchResult:
        """Search for a text and return the places found, best first: one answer may have several.

        The weights are those of its task, so the scores are the same as those of `ask`.

        >>> [hit.document.title for hit in kb.search("a slide guitar score for a film", unit="document", k=1).hits]
        ['Paris, Texas (film)']

        Args:
            asked: a text, or anything that can be asked.
            k: distinct places wanted, 1 to 1000.
            unit: what a place is: `phrase`, `sentence`, `passage` or `document`; None takes the task's own.
            weights: as in `ask`, and so are the other options.
            effort: how many candidates are looked at.
            nprobe: clusters probed per segment, instead of `effort`.
            strategy: where candidates come from.
            read: how many of the best passages a reader reads.
            max_phrase_tokens: the longest phrase that is found.
            where: a filter over the fields of documents.
            explain: give the parts of each score.
            truncate: cut a text that is too long for the encoder instead of refusing it.
            encoder: the name of an encoder tuned for this knowledge base.
        """
        options = SearchOptions(
            k=k,
            unit=unit,
            weights=some_weights(weights),
            effort=effort,
            nprobe=nprobe,
            max_phrase_tokens=max_phrase_tokens,
            where=where,
            explain=explain,
            truncate=truncate,
            strategy=strategy,
            read=read,
            encoder=encoder,
        )
        return self._answerer.search([asked_for(asked, "question")], options)[0]

    def verify(self, *, deep: bool = False, record: bool = False) -> VerifyReport:
        """Check every file and table, and answers that were recorded.

        >>> kb.verify().ok
        True

        Args:
            deep: also encode a sample of passages again and compare.
            record: when nothing is wrong, record answers, which later verifications compare with.
        """
        from kbengine.build.checking import record_kb_answers, verify_kb

        report = verify_kb(self._engine.path, deep=deep, encoder=self._engine.encoder)
        if record and report.ok:
            record_kb_answers(self._engine.path)
        return report

    def backup(self, folder: str | Path, *, keep: int | None = None) -> BackupReport:
        """Add a backup of the newest commit to a folder of backups; searches and changes go on meanwhile.

        `KnowledgeBase.restore` makes a knowledge base of it.

        >>> kb.backup(new_folder.with_name("backups")).generation == kb.info().generation
        True

        Args:
            folder: of this knowledge base's backups; made if it is not there.
            keep: how many backups stay in it, the newest; all by default.

        Raises:
            CorruptError: the knowledge base is damaged.
            StorageFullError: no space; earlier backups are untouched.
        """
        from storage.backup import back_up

        return back_up(self._engine.path, folder, keep=keep)

    @staticmethod
    def restore(folder: str | Path, path: str | Path, *, generation: int | None = None) -> BackupReport:
        """Make a knowledge base of a backup; it appears whole and verified, or not at all.

        >>> backups = new_folder.with_name("more-backups")
        >>> made = kb.backup(backups)
        >>> KnowledgeBase.restore(backups, new_folder.with_name("restored")).files == made.files
        True

        Args:
            folder: of backups.
            path: where the knowledge base goes, a path that holds nothing yet.
            generation: restore the backup of this commit; the newest by default.

        Raises:
            NotAKnowledgeBaseError: there is no such backup.
            KnowledgeBaseExistsError: the path holds something.
            CorruptError: the backup is damaged.
        """
        from storage.backup import restore

        return restore(folder, path, generation=generation)

    def info(self) -> KBInfo:
        """Return counts, sizes, settings and the last commits.

        >>> kb.info().documents
        133
        """
        return self._engine.info()

    def close(self) -> None:
        """Finish merging in the background, give the writer's lock back and close all files.

        >>> kb.close()
        """
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
