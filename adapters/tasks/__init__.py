"""The four tasks: requests in, answers out, with evidence and probabilities."""
