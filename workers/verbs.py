"""What a unit is made of, for operations that come with joblog and record more than a verb of ``Run`` does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from ..eventstore.failpoint import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..eventstore.append import Delivery
    from .run import Run

R = TypeVar("R")


class Verbs:
    """Of one run."""

    def __init__(self, run: Run) -> None:
        self._book, self._readers, self._drive = run._book, run.readers, run._drive  # noqa: SLF001 - two halves of one thing

    def mark(self, name: str, otherwise: Any) -> Any:
        """Where *name* goes on, as the checkpoint has it."""
        return self._book.marks.get(name, otherwise)

    async def begin(self, unit: str, mark: tuple[str, Any]) -> None:
        """Spend an attempt of *unit*, where a death in it must count; the last that happens before its effect."""
        self._book.check()
        await self._drive(self._book.begun(unit, mark))
        failpoint("unit.before_effect")

    async def done(self, unit: str, evidence: dict[str, Any], mark: tuple[str, Any], delivery: Delivery) -> None:
        """Record *unit*, where *mark* goes on, and what became of a webhook's record, in one commit."""
        failpoint("unit.after_effect")
        await self._drive(self._book.done([(unit, evidence)], mark, delivery=delivery))
        self._book.check()

    async def in_thread(self, function: Callable[..., R], *args: Any) -> R:
        """What takes moments, off the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *args)

    async def gathered(self, name: str, look: Callable[[Sequence[Any]], Sequence[Any]], question: Any) -> Any:
        """The answer of one *look* for all jobs of this worker that ask at the same time (see ``Gathered``)."""
        clients = self._book.clients
        assert clients is not None  # noqa: S101 - a run always has them
        return await clients.gathered(name, look).ask(question, self._readers)
