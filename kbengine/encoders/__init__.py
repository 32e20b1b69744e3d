"""Encoders: passages to token vectors, queries to start, end and passage vectors.

Names are imported on first use, so that the query inputs (`kbengine.encoders.query_input`) come without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbengine.encoders.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
    from kbengine.encoders.config import BackboneConfig, EncoderConfig, QueryLimits
    from kbengine.encoders.encoder import Encoder, PassageText, PassageVectors, QueryVectors
    from kbengine.encoders.model import PhraseModel, QueryOutput, build_model
    from kbengine.encoders.query_input import DialogueInput, MentionInput, QueryInput, QuestionInput, SlotInput
    from kbengine.encoders.tokenization import TextTokenizer

_HOME = {
    "BackboneConfig": "config",
    "Checkpoint": "checkpoint",
    "DialogueInput": "query_input",
    "Encoder": "encoder",
    "EncoderConfig": "config",
    "MentionInput": "query_input",
    "PassageText": "encoder",
    "PassageVectors": "encoder",
    "PhraseModel": "model",
    "QueryInput": "query_input",
    "QueryLimits": "config",
    "QueryOutput": "model",
    "QueryVectors": "encoder",
    "QuestionInput": "query_input",
    "SlotInput": "query_input",
    "TextTokenizer": "tokenization",
    "build_model": "model",
    "read_checkpoint": "checkpoint",
    "write_checkpoint": "checkpoint",
}

__all__ = [
    "BackboneConfig",
    "Checkpoint",
    "DialogueInput",
    "Encoder",
    "EncoderConfig",
    "MentionInput",
    "PassageText",
    "PassageVectors",
    "PhraseModel",
    "QueryInput",
    "QueryLimits",
    "QueryOutput",
    "QueryVectors",
    "QuestionInput",
    "SlotInput",
    "TextTokenizer",
    "build_model",
    "read_checkpoint",
    "write_checkpoint",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
