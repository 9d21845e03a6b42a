"""A source file as a stream of batches: bounded in memory, the same from any cursor on, refused once it has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...domain.errors import InvalidFieldError
from .container import Container, open_file
from .decoded import Decoded
from .digest import is_touched, verify
from .plan import Plan
from .reading import row_reader, take
from .rows import BATCH_LIMIT, Batch, Cursor, Row

BATCH_SIZE: Final = 500
BATCH_SIZE_LIMIT: Final = 100_000


class FileSource:
    """Reads what *plan* describes; made anew for every lease, closed by whoever reads.

    Each ``read`` opens the file, proves by its digest that it is the planned one, and keeps it open.  What
    somebody writes to it meanwhile is noticed before the next batch is given out.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def read(self, size: int = BATCH_SIZE, after: Cursor | None = None) -> Iterator[Batch]:
        """Batches of at most *size* rows (fewer where they reach ``BATCH_LIMIT``), from the cursor *after* on.

        Raises:
            SourceError: the file is not there, has changed, or can't be unpacked.
        """
        if type(size) is not int or not 1 <= size <= BATCH_SIZE_LIMIT:
            raise InvalidFieldError("size", f"{size!r} rows", f"give 1 to {BATCH_SIZE_LIMIT:,}")
        return self._read(size, after or self.plan.start)

    def batches(self, size: int, cursor: Any) -> Iterator[tuple[list[Row], dict[str, Any]]]:
        """As ``read``, in the terms of ``workers.sources.Source``: rows, and the cursor as a JSON object."""
        after = None if cursor is None else Cursor.from_state(cursor)
        return ((batch.rows, batch.cursor.to_state()) for batch in self.read(size, after))

    def _read(self, size: int, at: Cursor) -> Iterator[Batch]:
        plan = self.plan
        if at.ended:
            return
        with open_file(plan.path) as file:
            content = verify(file, plan.path, plan.digest)
            container = Container(plan.path, file, plan.member)

            def open_at(offset: int) -> Decoded:
                return Decoded(container.open_at(offset), plan.encoding)

            layout = plan.dialect or plan.format
            reader = row_reader(layout, plan.columns, plan.encoding, open_at, at)
            while rows := take(reader, size, BATCH_LIMIT):
                if is_touched(file, content):
                    content = verify(file, plan.path, plan.digest)
                at = reader.cursor(at.batch + 1)
                yield Batch(at.batch - 1, rows[0].number, rows, at)
