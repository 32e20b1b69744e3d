"""The training loop: options, optimiser, processes, checkpoints with exact resume, reports."""
