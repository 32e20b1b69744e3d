"""Sparse heads at work: n-gram vectors of passages and queries."""
