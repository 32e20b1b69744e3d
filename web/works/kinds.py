"""The kinds of jobs, and what does each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from web.jobs.job import Kind
from web.jobs.runner import Work
from web.works.annotations import annotate
from web.works.backups import back_up_kb
from web.works.exports import export_kb
from web.works.filling import fill
from web.works.uploads import upload

if TYPE_CHECKING:
    from web.engine import Engine


def works_of(engine: Engine) -> Mapping[str, Work]:
    """Return what does the jobs of each kind from a knowledge base."""
    works: Mapping[Kind, Work] = {
        "upload": partial(upload, engine),
        "annotate": partial(annotate, engine),
        "fill": partial(fill, engine),
        "backup": partial(back_up_kb, engine),
        "export": partial(export_kb, engine),
    }
    return cast("Mapping[str, Work]", works)
