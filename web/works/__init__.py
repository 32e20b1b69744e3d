"""What does the jobs: one file for each kind."""
