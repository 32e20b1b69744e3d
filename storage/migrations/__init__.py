"""The schema's history, run by `storage.database.migrate` through alembic; there is no alembic.ini."""
