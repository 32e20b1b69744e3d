"""Filling tables: a column of names or questions in, answers with their evidence in further columns out."""
