"""What all requests of a process share."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .auth import Auth, Proxies
from .errors import OverloadedError
from .guard import Guard, Limits
from .together import Together, TogetherSoon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...workers.commands.log import JobLog
    from ...workers.registry import Jobs
    from .auth import Principal

T = TypeVar("T")

_STILL_SECONDS: Final = 5.0  #: between two looks whether an open stream's token still stands


@dataclass(frozen=True)
class ServiceSettings:
    """How it serves."""

    read_only: bool = False
    proxies: Proxies = field(default_factory=Proxies)
    limits: Limits = field(default_factory=Limits)
    title: str = "joblog"


class Service:
    """The log, the threads that ask it, and who is connected."""

    def __init__(self, log: JobLog, jobs: Jobs, settings: ServiceSettings | None = None) -> None:
        from .chores import Chores
        from .feed import Feed
        from .metrics import Requests

        self.log, self.jobs, self.settings = log, jobs, settings or ServiceSettings()
        self.limits = self.settings.limits
        self.auth = Auth(log, self.settings.proxies)
        self.guard = Guard(self.limits, log.clock.monotonic, exempt=self.settings.proxies.trusts)
        self.requests = Requests()
        self.feed = Feed(self)
        self.together = Together()
        self._rights = TogetherSoon(self._rights_of)
        self.chores = Chores(log)
        self.draining = False
        self.began_at = log.now()
        self._pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="joblog-http")
        self._pending = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._still: dict[tuple[str, str], tuple[bool, float]] = {}

    async def ask(self, function: Callable[..., T], *args: Any) -> T:
        """Run what may ask the store, off the loop.

        Raises:
            OverloadedError: too much is waiting already.
        """
        return await self._counted(asyncio.get_running_loop().run_in_executor, self._pool, function, *args)

    async def _counted(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        if self._pending >= self.limits.pending:
            raise OverloadedError("too many requests wait for the database; nothing was written, try again")
        self._pending += 1
        try:
            return await function(*args)
        finally:
            self._pending -= 1

    async def may(self, principal: Principal, scope: str) -> bool:
        """Whether they still may, asked anew from the loop; many who come at once are one question of the store's.

        Raises:
            OverloadedError: too much is waiting already.
        """
        return await self._counted(self._rights.ask, (principal, scope))

    async def _rights_of(self, asked: list[tuple[Principal, str]]) -> dict[tuple[Principal, str], bool]:
        """Not counted: those who wait for it are."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.auth.may_all, asked)

    async def start(self) -> None:
        """Begin to follow the log and to watch connections."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self.guard.watch()), loop.create_task(self.feed.run())]
        if not self.settings.read_only:
            self._tasks.append(loop.create_task(self.ask(self.chores.look)))

    async def drain(self) -> None:
        """End what would wait for ever."""
        self.draining = True
        self.feed.stop()

    async def stop(self) -> None:
        """Give everything back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(self._pool, self.chores.stop)
        self._pool.shutdown()

    async def still(self, principal: Principal, scope: str) -> bool:
        """Whether a stream that was opened with *scope* may go on; asked of the store at most once a while."""
        now = self.log.clock.monotonic()
        key = (principal.token_id, scope)
        known = self._still.get(key)
        if known is None or now - known[1] > _STILL_SECONDS:
            good = await self.ask(self.auth.may, principal, scope)
            self._still[key] = known = (good, now)
        return known[0]
