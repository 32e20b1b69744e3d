"""Services that clusters of several machines need."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.integrations.cluster.services import Postgres, running_postgres, running_s3


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server on a free port."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def catalog(postgres: Postgres) -> str:
    """The address of an empty database."""
    return postgres.database(f"kb_{uuid.uuid4().hex[:12]}")


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of a server that stores objects as S3 does."""
    with running_s3() as address:
        yield address


@pytest.fixture
def bucket(s3: str) -> Callable[[], str]:
    """Gives addresses of places in it that nothing was stored at."""
    return lambda: f"s3://bucket/{uuid.uuid4().hex[:12]}"
