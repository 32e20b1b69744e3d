"""Texts without marks: their mentions found and linked together."""
