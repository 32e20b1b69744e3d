"""Training runs: from files to a model directory, the same way for every model that is trained."""
