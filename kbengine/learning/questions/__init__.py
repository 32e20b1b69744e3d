"""Training questions made from a corpus: cloze questions by rules, generated ones by a model."""
