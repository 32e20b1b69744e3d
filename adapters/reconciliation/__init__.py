"""What W3C's Reconciliation Service API asks for, over the one way to ask; `web.reconciliation` speaks it."""
