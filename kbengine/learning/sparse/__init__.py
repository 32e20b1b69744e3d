"""Training of SPARC's sparse heads."""
