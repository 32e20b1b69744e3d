"""Training phrase encoders, query encoders and the filter from reading-comprehension data."""
