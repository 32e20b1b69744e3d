"""Training of phrase encoders: batches, losses, distillation, development scores."""
