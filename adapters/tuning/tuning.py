"""Tuning on files: read rows, tune, score before and after, fit the weights and probabilities of what was stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.calibration.calibrating import CalibrateOptions, calibrate, store
from adapters.errors import CalibrationError
from adapters.tasks.calibration import SETTING, calibrations_of
from adapters.tuning.tuning_files import TaskFile, read_gold_rows, tuning_rows
from adapters.tuning.tuning_scores import DevelopmentScore, ScoreOptions
from kbengine.errors import InvalidOptionError, LockedError, MissingExtraError
from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
from kbengine.learning.loop.interruption import Stop, never
from kbengine.learning.tuning.options import TuningOptions
from kbengine.learning.tuning.tuning import TunedEncoder, refuse_existing, tune
from kbengine.progress import ProgressSink

if TYPE_CHECKING:
    from kbengine.learning.loop.report import TrainingReport


@dataclass(frozen=True)
class TuneRequest:
    """A tuning on files.

    Attributes:
        kb: The knowledge base.
        name: Of the tuned encoder.
        train: What is learned from.
        dev: What decides which weights are best; none: the last ones are kept.
        options: How.
        score: How development files are scored.
        limit: Rows used of each training file, drawn at random; None: all.
        dev_limit: And of each development file.
        calibrate: Whether weights and probabilities are fitted on the development files for what was stored.
        run: Where log, checkpoints and curves go; None: beside the knowledge base.
        overwrite: Whether an encoder of the name is replaced.
        resume: Go on with the interrupted run of the same request.
    """

    kb: Path
    name: str
    train: tuple[TaskFile, ...]
    dev: tuple[TaskFile, ...]
    options: TuningOptions
    score: ScoreOptions
    limit: int | None = None
    dev_limit: int | None = None
    calibrate: bool = True
    run: Path | None = None
    overwrite: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        for name in ("limit", "dev_limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidOptionError(f"the {name} is {value}, wanted 1 or more")
        if not self.train:
            raise InvalidOptionError("there is no file to learn from; give --train FILE")


def tune_files(
    request: TuneRequest,
    *,
    progress: ProgressSink | None = None,
    stop: Stop = never,
    notice: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return what came of it, plain JSON values; `development` holds every figure before and after.

    Raises:
        EncoderError: there is an encoder of the name.
        RecordError: a file cannot be read.
        TrainingDataError: no row can be learned from.
        KeyboardInterrupt: as asked for by `stop`; a checkpoint was written before.
    """
    tell = notice or _ignore
    options, seed = request.options, request.options.loop.seed
    refuse_existing(request.kb, request.name, overwrite=request.overwrite)
    train = [(file, read_gold_rows(file, limit=request.limit, seed=seed, notice=tell)) for file in request.train]
    dev = [(file, read_gold_rows(file, limit=request.dev_limit, seed=seed, notice=tell)) for file in request.dev]
    with KnowledgeBase.open(request.kb, options=KnowledgeBaseOptions(device=options.loop.device)) as knowledge_base:
        stored = calibrations_of(knowledge_base.setting(SETTING), encoder=knowledge_base.encoder.fingerprint)
        weights = {file.task: stored.weights(file.task) for file in (*request.train, *request.dev)}
        tuned = tune(
            knowledge_base,
            [row for file, rows in train for row in tuning_rows(file, rows, weights[file.task])],
            request.name,
            options,
            score=DevelopmentScore(dev, request.score, weights) if dev else None,
            run=request.run,
            overwrite=request.overwrite,
            resume=request.resume,
            progress=progress,
            stop=stop,
        )
        facts = tuned.facts() | {"development": before_and_after(tuned.report)}
        if tuned.info is not None and request.calibrate and dev:
            facts["calibrated"] = _calibrate(knowledge_base, tuned, request, progress, tell)
    return facts


def before_and_after(report: TrainingReport) -> dict[str, dict[str, float]]:
    """Return every development figure of the start and of the weights that were kept."""
    return {
        name: {"before": value, "after": report.best.get(name, value)} for name, value in sorted(report.first.items())
    }


def _calibrate(
    knowledge_base: KnowledgeBase,
    tuned: TunedEncoder,
    request: TuneRequest,
    progress: ProgressSink | None,
    tell: Callable[[str], None],
) -> list[str]:
    """Return the tasks whose weights and probabilities were fitted for the tuned encoder and stored."""
    assert tuned.info is not None
    done = []
    fit = CalibrateOptions(rows=request.dev_limit or CalibrateOptions().rows, seed=request.options.loop.seed)
    for task in dict.fromkeys(file.task for file in request.dev):
        paths = [file.path for file in request.dev if file.task == task]
        try:
            found = calibrate(
                knowledge_base, paths, task, options=fit, encoder=tuned.info.name, progress=progress, notice=tell
            )
            store(knowledge_base, found)
        except (CalibrationError, MissingExtraError, LockedError) as error:
            # The encoder is stored and good without: what is missing can be fitted later.
            tell(f"{task} was not calibrated: {error.message}; later: kbengine calibrate --encoder {tuned.info.name}")
        else:
            done.append(str(task))
    return done


def _ignore(_: str) -> None:
    """Do nothing."""
