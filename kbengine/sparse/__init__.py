"""SPARC (Lee et al., ACL 2020): contextualised sparse vectors of phrases, learned by rectified self-attention."""
