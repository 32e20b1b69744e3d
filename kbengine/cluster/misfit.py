"""What is said of a value in a message that its type hint does not allow, and where it is."""

from __future__ import annotations

import math

import numpy as np

from kbengine.errors import MessageError


class Misfit(Exception):  # noqa: N818  # no error of the caller's: whoever asked makes one of it, with the place
    """A value that its type hint does not allow: what is said of it, and the steps that lead there, last one first."""

    def __init__(self, said: str) -> None:
        self.said = said
        self.steps: list[str] = []

    def at(self, step: str) -> Misfit:
        """Return itself, one step further out."""
        self.steps.append(step)
        return self

    def error(self, place: str) -> MessageError:
        """Return the error that names the place."""
        return MessageError(place + "".join(reversed(self.steps)) + self.said)


def wrong(value: object, wanted: str) -> Misfit:
    """Return what is said of a value that its type hint does not allow."""
    return Misfit(f" is {_short(value)}, wanted {wanted}")


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
