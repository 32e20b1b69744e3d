"""A service that is running elsewhere, asked instead of a directory: the same answers, without model or torch here."""
