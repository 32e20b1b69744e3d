"""Bodies that show what an operation takes: in the OpenAPI document and on the page of the API. Tests send each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "question": {"text": "Where was Marie Curie born?", "k": 3},
    "slot_filling": {"subject": "Marie Curie", "relation": "P19", "k": 3},
    "entity_linking": {"text": "They met in Paris.", "span": [12, 17]},
    "dialogue": {"turns": ["I like science.", "Where was Marie Curie born?"], "unit": "passage"},
    "search": {"text": "the first woman to win a Nobel Prize", "unit": "document", "k": 5},
    "answer_batch": {
        "queries": [
            {"task": "question", "id": "a", "text": "Where was Marie Curie born?"},
            {"task": "slot-filling", "id": "b", "subject": "Marie Curie", "relation": "place of death"},
        ]
    },
    "annotate_text": {"text": "Marie Curie was in Paris.", "threshold": 0.5},
    "post_profile": {"name": "Marie Curie", "relations": ["P19", "P20"]},
    "add_documents": {
        "id": "mars",
        "title": "Mars",
        "text": "Mars is red.\n\nIt has two moons.",
        "aliases": ["red planet"],
    },
    "add_feedback": {
        "task": "question",
        "input": "Where was Marie Curie born?",
        "answer": "Warsaw",
        "verdict": "right",
        "document": "marie-curie",
    },
}
"""By the operation's id."""
