"""What is said about a refused destination to those who watch for attacks (SSR-07, SSR-11, SSR-12)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from ...domain.errors import JobLogError
from ...domain.security import EgressRefused
from ...domain.withheld import scrub
from ...eventstore.append import Append, EventRow

if TYPE_CHECKING:
    from ..commands.log import JobLog
    from .errors import DestinationRefusedError

#: Told each refusal; must not fail, and its failure changes nothing.
Report = Callable[["DestinationRefusedError"], None]

logger = logging.getLogger("joblog.security")
DETAIL_LIMIT: Final = 500
_SECURITY: Final = UUID("3f7c2a90-6d1b-4b0e-8a3d-52f0c8e1b7a4")  # namespace of the streams: never edit
_AT_ONCE: Final = 256


def detail_of(refusal: DestinationRefusedError) -> str:
    """One line of at most 500 characters, without control characters and known secrets."""
    line = "".join(each if each.isprintable() else " " for each in scrub(refusal.detail))
    return line if len(line) <= DETAIL_LIMIT else line[: DETAIL_LIMIT - 1] + "…"


def log_refusal(refusal: DestinationRefusedError) -> None:
    """A line in the process' own log."""
    logger.warning("outbound request refused (%s): %s", refusal.category, detail_of(refusal))


class SecurityStream:
    """Appends each refusal to the log, beside the request, which never waits for it.

    While 256 are on their way further ones are only counted; the next event says how many.
    """

    def __init__(self, log: JobLog, actor: str = "") -> None:
        self._log, self._actor = log, actor
        self._under_way: set[asyncio.Future[Any]] = set()
        self._missed = 0

    def __call__(self, refusal: DestinationRefusedError) -> None:
        """Record it; on the event loop of the request."""
        log_refusal(refusal)
        if len(self._under_way) >= _AT_ONCE:
            self._missed += 1
            return
        log, missed = self._log, self._missed
        event_id = log.ids.next()
        stream = uuid5(_SECURITY, event_id)
        event = EgressRefused.made(
            stream, log.now(), refusal=refusal.category, actor=self._actor, detail=detail_of(refusal), missed=missed
        )
        _, version, topic, state = log.mapper.encode(event, event_id)
        append = Append(stream, 0, [EventRow(version, topic, state)], event_id)
        [answer] = log.writer.append_soon([append], asyncio.get_running_loop())
        self._under_way.add(answer)
        self._missed = 0
        answer.add_done_callback(partial(self._written, missed))

    async def settled(self) -> None:
        """Wait until everything that is on its way has been answered."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _written(self, missed: int, answer: asyncio.Future[Any]) -> None:
        self._under_way.discard(answer)
        if answer.cancelled() or isinstance(answer.result(), JobLogError):
            self._missed += missed + 1
            logger.warning("a refusal was not written into the log: %s", "" if answer.cancelled() else answer.result())
