"""Verdicts: whether passages support a claim or refute it, said by a model that was trained on rows of the user's."""
