"""One file per schema change, named by its number; a released file is never edited."""
