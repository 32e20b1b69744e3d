"""Readers: a cross-encoder as teacher and baseline, its training and the papers' reading scores."""
