"""Fitting weights, probabilities and thresholds on development data."""
