"""How a KILT file is answered: the parameters of its route."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from adapters.kilt.answer_forms import MAX_STEPS, AnswerForm
from adapters.kilt.predict_options import MIN_PAGES
from kbengine.search.query import Effort
from web import limits
from web.models.base import AddressFilter, Body


class KiltQuery(Body):
    """How to answer every record of the file."""

    model_config = ConfigDict(strict=False)

    pages: int = Field(10, ge=MIN_PAGES, le=limits.K, description="Distinct pages a record.")
    effort: Effort = Field("normal", description="How many candidates are looked at.")
    where: AddressFilter | None = Field(None, description="Search only documents whose fields pass this.")
    threshold: float = Field(
        0.0, ge=0, le=1, allow_inf_nan=False, description="Answers less probable than this are left blank."
    )
    answer: AnswerForm = Field(
        "phrase",
        description="The task's own answer, the best sentences, pages alone (FEVER's claims), or what the service's "
        "verdict model says of a claim.",
    )
    steps: int = Field(
        1, ge=1, le=MAX_STEPS, description="Searches for a question's pages; the second sees what the first found."
    )
