"""Training examples: read from KILT, SQuAD, Natural Questions and other files, and mined negatives."""
