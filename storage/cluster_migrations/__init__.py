"""The history of a cluster's catalog, run by `storage.cluster_database.migrate_catalog`; there is no alembic.ini."""
