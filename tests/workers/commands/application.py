"""An application beside the log: its engine, its table, and jobs it submits in its own transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from joblog.domain.spec import JobSpec
from joblog.eventstore import schema
from joblog.workers.commands.log import JobLog

ORDERS = sa.Table("orders", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))


@contextmanager
def an_engine(url: str) -> Iterator[sa.Engine]:
    """An engine as an application makes it: SQLAlchemy's own defaults."""
    engine = sa.create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def a_file(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder / 'app.db'}"


def order(log: JobLog, engine: sa.Engine, spec: JobSpec, number: int = 1) -> UUID:
    """Write a row of the application's and submit a job, in one transaction."""
    with engine.begin() as connection:
        connection.execute(sa.insert(ORDERS).values(id=number))
        return log.submit_in(connection, spec)


def waiting(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(schema.outbox)).scalar_one()
