"""Training of the model that says whether passages support a claim or refute it."""
