"""Task files by their names: the task of an input file, and where its submission goes."""

from __future__ import annotations

from pathlib import Path

from adapters.kilt.datasets import dataset_of, submission_name
from kbengine.errors import InvalidOptionError
from kbengine.inputs import TASKS, Task

# Data sets outside the eleven of KILT whose task is known by the first part of their files' names.
_TASK_OF_NAME: dict[str, Task] = {
    **dict.fromkeys(("docred", "fewrel", "fewrel_unseen", "knet"), "slot-filling"),
    **dict.fromkeys(("topicalchat", "cmudog", "inscit"), "dialogue"),
    **dict.fromkeys(("squad", "newwiki", "qed", "nqopen", "selqa"), "question"),
}


def task_of_file(path: str | Path) -> Task:
    """Return the task of a file by its data set's name: `trex-dev-kilt.jsonl`, `docred.dev.jsonl.gz`.

    Raises:
        InvalidOptionError: the name is not known.
    """
    dataset = dataset_of(path)
    if dataset is not None:
        return dataset.task
    name = submission_name(path).partition(".")[0]
    task = _TASK_OF_NAME.get(name) or ("entity-linking" if name.startswith("el_") else None)
    if task is not None:
        return task
    choices = ", ".join(TASKS)
    raise InvalidOptionError(f"the task of {Path(path).name!r} is not known by its name; pass --task, one of {choices}")


def output_path(inputs: str | Path, out: Path) -> Path:
    """Return the submission's file: `out` itself, or the conventional name in it when it is a directory.

    Raises:
        InvalidOptionError: the name cannot be made, is gzipped or a missing directory's, or the inputs' own.
    """
    if out.is_dir():
        if str(inputs) == "-":
            raise InvalidOptionError(f"--out {out} is a directory and standard input has no name; name a file")
        out = out / submission_name(inputs)
    elif not out.exists() and not out.suffix:
        raise InvalidOptionError(
            f"--out {out} is no directory that exists; make it (mkdir {out}), or name a file such as {out}.jsonl"
        )
    if out.suffix == ".gz":
        raise InvalidOptionError(f"--out is {out.name!r}, a submission is a plain .jsonl; leave .gz out")
    if out.exists() and str(inputs) != "-" and Path(inputs).exists() and out.samefile(inputs):
        raise InvalidOptionError(f"--out {out} is the input file itself; name another file or directory")
    return out
