"""Readers of training rows: SQuAD, Natural Questions, KILT files and zero-shot relation extraction."""
