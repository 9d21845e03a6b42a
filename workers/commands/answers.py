"""What commands answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from uuid import UUID


class Submitted(NamedTuple):
    """A job that is in the log."""

    job_id: UUID
    created: bool  #: False: it was there already
    position: int  #: of its first event


class Reclaimed(NamedTuple):
    """A dead holder's job that was taken back."""

    job_id: UUID
    worker: str  #: who held it
    cause: str
    status: str  #: queued, or what its wish or its crashes made of it
    position: int


class Commanded(NamedTuple):
    """What an operator's command did; repeating its request id gives the same."""

    job_id: UUID
    status: str
    wish: str
    version: int
    repeated: bool


class BulkAnswer(NamedTuple):
    """What a command to a whole queue did."""

    generation: int
    done: int
    refused: int
    superseded: bool
