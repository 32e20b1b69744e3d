"""Commands that ask, predict, score, calibrate and tune."""
