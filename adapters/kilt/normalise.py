"""Text normalisation of the KILT evaluator: SQuAD's, to the letter, which `kbengine` uses too."""

from __future__ import annotations

from kbengine.corpus.normalise import norm

__all__ = ["norm"]
