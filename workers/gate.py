"""One request's passage through a provider's gate: its turn, its slot, and what the provider's answer means for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..domain import identity, storable
from ..domain.errors import InvalidFieldError, JobLogError
from ..eventstore.clock import micros, moment, pause_soon
from ..eventstore.gates import GateEntry, GateRow, glance
from .errors import NeedsOperator, ProviderWaits, Stopped
from .provider import Provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor
    from datetime import datetime

    from ..eventstore.gates import GateAnswer
    from ..eventstore.store import Store
    from .book import Book
    from .errors import RetryLater
    from .outbound.clients import Clients
    from .outbound.exchange import Response

    Headers = Mapping[str, str] | Iterable[tuple[str, str]]

R = TypeVar("R")
#: A reference, or several of which the first is used that there is.
Credentials = str | tuple[str, ...]
logger = logging.getLogger(__name__)

#: A turn that is further away gives lease and slot back.
MOMENT: Final = 1.0
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOK_AGAIN: Final = 0.05  #: at a full gate, seconds


class Passage:
    """The waiting and the slot of one request."""

    def __init__(self, book: Book, provider: str, credential: str) -> None:
        storable.name(provider, "provider")
        storable.name(credential, "credential", empty=True)
        if "/" in provider:
            raise InvalidFieldError("provider", f"{provider!r} has a slash", "name the credential by itself")
        self._book = book
        held = book.held
        self.name = identity.gate(held.job.tenant, f"{provider}/{credential}" if credential else provider)
        self._provider = book.gates.get(provider, Provider())
        self._entry = GateEntry(self.name, book.log.ids.next(), held.job_id, held.token, self._provider.limits)
        self._answer: GateAnswer | None = None
        self._waited = 0.0

    @property
    def at(self) -> datetime:
        """When the request was let go, by the store's clock."""
        assert self._answer is not None  # noqa: S101 - read behind the gate only
        return moment(self._answer.at)

    def wait(self) -> float | None:
        """Ask for the turn: None if it has come, else how many seconds to wait in place and ask again.

        Raises:
            Stopped: it is more than a moment away.
        """
        self._book.check()
        log = self._book.log
        return self._told(log.busy.run(lambda: log.store.enter_gate(self._entry)))

    async def wait_soon(self, readers: Executor | None) -> float | None:
        """As ``wait``, on an event loop: one look for all who ask, and a change of threads only for a gate with limits."""
        self._book.check()
        clients, log = self._book.clients, self._book.log
        assert clients is not None  # noqa: S101 - a run always has them
        look = clients.gathered("gates", lambda entries: log.busy.run(lambda: _glances(log.store, entries)))
        told: GateAnswer | None = await look.ask(self._entry, readers)
        if told is not None:
            self._book.check()
            return self._told(told)
        return await asyncio.get_running_loop().run_in_executor(readers, self.wait)

    def _told(self, answer: GateAnswer) -> float | None:
        self._answer = answer
        if answer.is_let_go:
            return None
        seconds = _LOOK_AGAIN if answer.why == "full" else (answer.at - answer.now) / 1_000_000
        self._waited += seconds
        # A gate that the job's own requests fill is waited for in place: giving it up would undo what they do.
        if self._waited > MOMENT and not answer.own:
            raise Stopped("gate", moment(answer.at) if answer.why == "turn" else None, gate=self.name)
        return min(seconds, MOMENT)

    @property
    def is_counted(self) -> bool:
        """Whether it holds a slot."""
        return self._answer is not None and self._answer.counted

    def leave(self) -> None:
        """Give the slot back."""
        if not self.is_counted:
            return
        try:
            self._book.log.store.leave_gate(self.name, self._entry.entry, spaced=self._provider.one_by_one)
        except JobLogError as error:  # what was asked of the provider stands; the slot ends with the lease
            logger.warning(
                "gate %s: the slot of job %s is given back with its lease: %s", self.name, self._entry.job_id, error
            )

    def close(self, until: datetime, reason: str) -> datetime:
        """Close the gate for every job, until then at least; returns until when it is closed."""
        store, by = self._book.log.store, str(self._entry.job_id)
        return moment(store.close_gate(self.name, micros(until), by=by, reason=storable.text(reason, limit=200)))

    def judged(self, status: int, headers: Headers) -> tuple[datetime | None, str, RetryLater | None]:
        """What an answer means: until when it closes the gate, if it does, the reason for that, and what the job does."""
        from .outbound import verdict

        now = self._book.log.now()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        wait = verdict.hint(pairs, status, now, reset_form=self._provider.reset_form)
        until, reason = (None, "") if wait is None else (wait.until(now), f"{status} ({wait.origin})")
        if not verdict.is_retryable(status):
            return until, reason, None
        error = verdict.retry_later(f"http-{status}", "", wait, now)
        if isinstance(error, ProviderWaits):
            error.gate = self.name
        return until, reason, error

    def shut(self, until: datetime, reason: str) -> None:
        """Close it as a provider said; where that fails this job waits all the same, and the next is told by itself."""
        try:
            self.close(until, reason)
        except JobLogError as failure:
            logger.warning("gate %s could not be closed: %s", self.name, failure)


def _glances(store: Store, entries: Sequence[GateEntry]) -> list[GateAnswer | None]:
    rows, now = store.gate_rows(list({entry.gate for entry in entries})), store.now()
    return [glance(rows.get(entry.gate, GateRow(entry.gate)), entry.limits, now) for entry in entries]


class _BaseTurn:
    """A request that was let go."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    @property
    def gate(self) -> str:
        """The gate's name, as ``joblog gates`` shows it."""
        return self._passage.name

    @property
    def at(self) -> datetime:
        """When the request was let go, by the store's clock."""
        return self._passage.at


class SyncTurn(_BaseTurn):
    """A request that was let go, in a thread."""

    def close(self, until: datetime, reason: str = "") -> datetime:
        """Close the gate for every job until then at least, for seven days at most; returns until when it is closed."""
        return self._passage.close(until, reason)

    def answered(self, status: int, headers: Headers = ()) -> None:
        """Say what the provider answered.  What it tells of its limits closes the gate for every job.

        Raises:
            RetryLater: a passing fault; with an instant of the provider's, ``ProviderWaits``.
        """
        until, reason, error = self._passage.judged(status, headers)
        if until is not None:
            self._passage.shut(until, reason)
        if error is not None:
            raise error


class Turn(_BaseTurn):
    """A request that was let go, on an event loop."""

    def __init__(self, passage: Passage, readers: Executor | None) -> None:
        super().__init__(passage)
        self._readers = readers

    async def _off_the_loop(self, function: Callable[..., R], *args: Any) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *args)

    async def close(self, until: datetime, reason: str = "") -> datetime:
        """As ``SyncTurn.close``."""
        return await self._off_the_loop(self._passage.close, until, reason)

    async def answered(self, status: int, headers: Headers = ()) -> None:
        """As ``SyncTurn.answered``."""
        until, reason, error = self._passage.judged(status, headers)
        if until is not None:
            await self._off_the_loop(self._passage.shut, until, reason)
        if error is not None:
            raise error


class _BaseGate:
    """A gate as a run sees it."""

    def __init__(self, book: Book, provider: str, credential: Credentials, hosts: tuple[str, ...]) -> None:
        references = (credential,) if isinstance(credential, str) else credential
        if hosts and not all((references, *references)):
            raise InvalidFieldError("credential", "none is named for these hosts", "give its reference")
        if len(references) > 1 and not hosts:
            raise InvalidFieldError("credential", "several, and none is sent", "say to which hosts they are sent")
        self._book, self._provider, self._hosts = book, provider, hosts
        self._reference, self._others = (*references, "")[0], references[1:]
        self._open: list[Passage] = []

    def _passage(self) -> Passage:
        return Passage(self._book, self._provider, self._reference)

    async def _requested(self, around: Callable[[], Gate], method: str, url: str, options: dict[str, Any]) -> Response:
        """One call of the client, each hop of it behind the gate."""
        clients, tenant = self._book.clients, self._book.held.job.tenant
        assert clients is not None  # noqa: S101 - a run always has them
        await self._choose(clients, tenant)
        options.setdefault("reset_form", self._book.gates.get(self._provider, Provider()).reset_form)
        if self._hosts:
            options["credential"] = clients.credential(self._reference, self._hosts, tenant=tenant)
        if method.upper() not in _SAFE:
            options.setdefault("unit_id", self._book.unit_id())
        return await clients.client().request(method, url, around=around, **options)

    async def _choose(self, clients: Clients, tenant: str) -> None:
        """Of several references the first that there is (SEC-05); its gate is the one that is passed.

        Raises:
            NeedsOperator: there is none of them.
        """
        while self._others:
            try:
                await clients.credential(self._reference, self._hosts, tenant=tenant).reveal(self._reference)
            except NeedsOperator as missing:
                self._reference, *others = self._others
                self._others = tuple(others)
                logger.info("job %s: %s; %s is tried instead", self._book.held.job_id, missing, self._reference)
            else:
                self._others = ()


class Gate(_BaseGate):
    """On an event loop; ``async with`` lets one request go."""

    def __init__(
        self, book: Book, provider: str, credential: Credentials, hosts: tuple[str, ...], readers: Executor | None
    ) -> None:
        super().__init__(book, provider, credential, hosts)
        self._readers = readers

    async def __aenter__(self) -> Turn:
        """Wait for the turn and the slot."""
        passage = self._passage()
        while (seconds := await passage.wait_soon(self._readers)) is not None:
            await pause_soon(seconds)
        self._open.append(passage)
        return Turn(passage, self._readers)

    async def __aexit__(self, *_: object) -> None:
        """Give the slot back."""
        passage = self._open.pop()
        if passage.is_counted:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._readers, passage.leave))

    async def request(self, method: str, url: str, **options: Any) -> Response:
        """Send one request through the bounded, guarded client, each hop of it behind the gate.

        *options* as in ``OutboundClient.request``; what changes something carries ``run.unit_id`` as idempotency key.

        Raises:
            RetryLater: it may do better later; ``ProviderWaits`` with the provider's instant.
            NeedsOperator: the credential is missing or not accepted.
            Fatal: anything else.
        """
        return await self._requested(self._again, method, url, options)

    def _again(self) -> Gate:
        return Gate(self._book, self._provider, self._reference, (), self._readers)


class SyncGate(_BaseGate):
    """In a thread; ``with`` lets one request go."""

    def __enter__(self) -> SyncTurn:
        """Wait for the turn and the slot."""
        passage = self._passage()
        while (seconds := passage.wait()) is not None:
            self._book.control.wait(seconds)
        self._open.append(passage)
        return SyncTurn(passage)

    def __exit__(self, *_: object) -> None:
        """Give the slot back."""
        self._open.pop().leave()

    def request(self, method: str, url: str, **options: Any) -> Response:
        """As ``Gate.request``, on the worker's loop."""
        clients = self._book.clients
        assert clients is not None  # noqa: S101 - a run always has them
        call = self._requested(self._again, method, url, options)
        return asyncio.run_coroutine_threadsafe(call, clients.loop).result()

    def _again(self) -> Gate:
        return Gate(self._book, self._provider, self._reference, (), None)
