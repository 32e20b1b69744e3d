"""Questions made from a corpus: cloze by rules, or by a T5 model with a round-trip filter."""
