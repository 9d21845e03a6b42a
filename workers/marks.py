"""Exactly once into another database: a mark beside the user's rows, written in the user's own transaction there.

The mark says how far this job's batches are in that database, and under which fencing token; the evidence of the newest
batch lies with it.  A batch whose rows and mark were committed but whose evidence did not reach the log is found by its
mark and recorded, not done again.  A former holder's late transaction meets a higher token and is undone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from ..domain.errors import LeaseLostError
from ..eventstore.failpoint import failpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .batch import BaseBatch
    from .book import Book

_metadata = sa.MetaData()
MARKS = sa.Table(
    "joblog_marks",
    _metadata,
    sa.Column("job_id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("done", sa.BigInteger, nullable=False),  # batches that are in this database
    sa.Column("newest", sa.Text, nullable=False),  # JSON: evidence, cursor and tallies of the newest
)


class Marks:
    """The marks of one job and source in one target database."""

    def __init__(self, engine: sa.Engine, book: Book, name: str) -> None:
        self._engine, self._book = engine, book
        self._where = (MARKS.c.job_id == str(book.held.job_id)) & (MARKS.c.name == name)
        self._name = name
        _metadata.create_all(engine)

    def unrecorded(self, index: int) -> dict[str, Any] | None:
        """What batch *index* left here, if it is here already."""
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(MARKS.c.done, MARKS.c.newest).where(self._where)).first()
        if row is None or row.done <= index:
            return None
        newest: dict[str, Any] = orjson.loads(row.newest)
        return newest

    @contextmanager
    def writing(self, batch: BaseBatch[Any]) -> Iterator[sa.Connection]:
        """A transaction in the target; its rows and the mark are committed together.

        Raises:
            LeaseLostError: a newer holder has written here; undone.
        """
        with self._engine.begin() as connection:
            self._take(connection)
            yield connection
            kept = {"evidence": batch.evidence(), "cursor": batch.cursor, "tallies": batch.tallied}
            values = {"done": batch.number + 1, "newest": orjson.dumps(kept).decode()}
            connection.execute(sa.update(MARKS).where(self._where).values(**values))
            failpoint("marks.before_commit")
        failpoint("marks.after_commit")

    def _take(self, connection: sa.Connection) -> None:
        """Write our token first: takes the row's (on SQLite the file's) lock, and fences off older holders."""
        epoch, token = self._book.held.token
        older = sa.or_(MARKS.c.epoch < epoch, sa.and_(MARKS.c.epoch == epoch, MARKS.c.token <= token))
        update = sa.update(MARKS).where(self._where, older).values(epoch=epoch, token=token)
        if connection.execute(update).rowcount:
            return
        if connection.execute(sa.select(MARKS.c.done).where(self._where)).first() is not None:
            raise LeaseLostError(self._book.held.job_id, token)
        row = {"job_id": str(self._book.held.job_id), "name": self._name, "epoch": epoch, "token": token}
        connection.execute(sa.insert(MARKS).values(**row, done=0, newest="{}"))
