"""DensePhrases' published files: checkpoints become encoders, phrase dumps and indexes become knowledge bases."""
