"""W3C's Reconciliation Service API 0.2 under /reconcile, for OpenRefine and other tools that match tables."""
