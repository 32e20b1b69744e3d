"""Fitting how probable a value of a profile is: `adapters/profiles/value_model.json`, which ships.

Run: python -m recipes.profile_values --kb DIR --data DIR [--entities N] [--scratch FILE]

Subjects of DocRED's training rows that have a page of their own are asked about as a card does. An answer is right
when it is a gold object. A logistic regression with a small ridge is fitted on all answers, and its intercept is raised
by what the rows leave out (`LEFT_OUT`): what no row names counts as wrong there, and often is not.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapters.profiles import value_model
from adapters.profiles.value_model import FEATURES
from benchmarks.kilt_sets import data_folder
from benchmarks.profiles import candidates, gold_entities
from kbengine.knowledge_base import KnowledgeBase

RIDGE = 1.0
STEPS = 50
SEED = 13
LEFT_OUT = 0.6
"""Log odds by which answers are more probable than rows say. 96 answers about training subjects that no row names were
judged by hand, 16 of each sixth of the probabilities: 1, 0, 4, 4, 4 and 7 of them are true, so that 17, 40, 55, 72 and
91 % are right where 15, 25, 39, 60 and 83 % seem to be."""
TARGET = Path(value_model.__file__).with_name(value_model.SHIPPED)

Float64 = NDArray[np.float64]


def fit(features: Float64, is_right: NDArray[np.bool_]) -> tuple[Float64, float]:
    """Return the coefficients and the intercept of the likeliest logistic regression, by Newton's method.

    Args:
        features: float64 (n, features).
        is_right: bool (n,).
    """
    x = np.hstack([features, np.ones((len(features), 1))])
    ridge = RIDGE * np.eye(x.shape[1])
    ridge[-1, -1] = 1e-6  # the intercept is free
    w = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        gradient = x.T @ (p - is_right) + ridge @ w
        curvature = x.T @ (x * (p * (1 - p))[:, None]) + ridge
        w -= np.linalg.solve(curvature, gradient)
    return w[:-1], float(w[-1])


def main() -> None:
    """Ask, fit, and write the file that ships."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--entities", type=int, default=60)
    parser.add_argument("--scratch", type=Path, default=Path("profile-values.jsonl"), help="answers, kept between runs")
    given = parser.parse_args()
    entities = gold_entities(data_folder(given.data) / "docred.train.jsonl.gz")
    with KnowledgeBase.open(given.kb) as knowledge_base:
        there = knowledge_base.reader.live_documents([each.page for each in entities])
        entities = [each for each in entities if each.page in there]
        chosen = random.Random(SEED).sample(entities, min(given.entities, len(entities)))
        found = candidates(knowledge_base, chosen, given.scratch)
    features = np.array([each.features for each in found])
    is_right = np.array([each.is_right for each in found])
    coefficients, intercept = fit(features, is_right)
    record = {
        "coefficients": {name: round(float(each), 3) for name, each in zip(FEATURES, coefficients, strict=True)},
        "intercept": round(intercept + LEFT_OUT, 3),
        "fitted_on": f"{len(found)} answers about {len({each.page for each in found})} subjects of DocRED's training "
        f"rows, {int(is_right.sum())} of them right by these rows; "
        f"intercept raised by {LEFT_OUT}: the rows leave much out",
    }
    TARGET.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
