"""Whole trainings as scripts: the default encoder, and the papers' findings measured again."""
