"""The outbound client: one bounded, guarded, judged request at a time.

Every request ends in a ``Response`` or in a verdict of ``workers/errors.py``: ``RetryLater`` (with the instant that the
provider gave), ``NeedsOperator`` or ``Fatal``.  It never sends a request twice by itself: a retry is the job's, with an
attempt and a turn of the gate of its own.
"""

from __future__ import annotations

import asyncio
import json as stdlib_json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from ...domain.errors import InvalidFieldError
from ..errors import Fatal
from . import verdict
from .errors import DestinationRefusedError
from .exchange import Around, Exchange, Request, Response
from .guard import Guard
from .headers import checked, with_default
from .limits import EXCERPT_LIMIT, Limits
from .security import Report, log_refusal
from .transport import GuardedConnector, SystemResolver, dial, session, tls_context

if TYPE_CHECKING:
    import ssl
    from datetime import datetime
    from pathlib import Path
    from typing import Self

    import aiohttp

    from .credential import Credential
    from .guard import Resolver
    from .retry_after import ResetForm
    from .transport import Dial

__all__ = ("OutboundClient", "Response")

logger = logging.getLogger(__name__)

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OK: Final = frozenset(range(200, 300))


class OutboundClient:
    """Requests to the outside; one per event loop.  Close it, or use it as ``async with``.

    *now*: the store's time, as ``JobLog.now``.
    """

    def __init__(
        self,
        *,
        guard: Guard | None = None,
        now: Callable[[], datetime],
        limits: Limits | None = None,
        ca_file: Path | None = None,
        resolver: Resolver | None = None,
        report: Report = log_refusal,
        scrub: Callable[[str], str] = str,
        open_socket: Dial = dial,
    ) -> None:
        self.guard, self.limits = guard or Guard(), limits or Limits()
        self.now, self._report, self._scrub = now, report, scrub
        self._ca_file, self._resolver, self._dial = ca_file, resolver, open_socket
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None
        self.failed: set[tuple[str, str, int]] = set()  #: origins whose name is looked up anew for the next request

    async def __aenter__(self) -> Self:
        """Close at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Hang up every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        body: bytes | None = None,
        json: Any = None,
        unit_id: str = "",
        unit_header: str = "Idempotency-Key",
        credential: Credential | None = None,
        limits: Limits | None = None,
        expect: Iterable[int] = _OK,
        around: Around = nullcontext,
        reset_form: ResetForm = "",
    ) -> Response:
        """Send one request and give its answer, whose status is one of *expect*.

        *unit_id* goes along in *unit_header*: ``run.unit_id`` is the same each time the unit is tried.

        Raises:
            RetryLater: it may do better later; with the provider's instant if it gave one.
            NeedsOperator: the credential is missing or not accepted.
            Fatal: anything else, a refused destination among it.
        """
        limits = limits or self.limits
        if method.upper() not in _METHODS:
            raise InvalidFieldError("method", f"{method[:20]!r} is not sent", "use GET, POST, PUT, PATCH, DELETE, …")
        sent = checked(headers)
        if json is not None:
            body = stdlib_json.dumps(json, separators=(",", ":"), allow_nan=False).encode()
            sent = with_default(sent, "Content-Type", "application/json")
        if unit_id:
            sent += checked({unit_header: unit_id})
        sent = with_default(sent, "User-Agent", "joblog")
        exchange = Exchange(self, credential, limits, frozenset(expect), reset_form)
        try:
            request = Request(method.upper(), self.guard.check(url), sent, body)
            try:
                return await exchange.followed(request, around)
            except TimeoutError:
                raise verdict.network("timeout", f"no whole answer within {limits.total_ms} ms") from None
        except DestinationRefusedError as refusal:
            self._reported(refusal)
            raise Fatal(refusal.code, category=refusal.category) from None

    def _reported(self, refusal: DestinationRefusedError) -> None:
        """Tell the security stream; whatever happens there, the refusal stands (SSR-12)."""
        try:
            self._report(refusal)
        except Exception:
            logger.exception("a refused destination (%s) was not recorded", refusal.category)

    def opened(self) -> aiohttp.ClientSession:
        """The session, made in the loop that uses it."""
        if self._session is None:
            self._session = session(GuardedConnector(self.guard, self._resolver or SystemResolver(), self._dial))
        return self._session

    async def tls(self) -> ssl.SSLContext:
        """The context of https; reading the authorities takes long, so that is done once, off the loop, if at all."""
        if self._tls is None:
            made = await asyncio.get_running_loop().run_in_executor(None, tls_context, self._ca_file)
            self._tls = made
        return self._tls

    def excerpt(self, raw: bytes) -> str:
        """At most 200 characters that may be stored: no secret, no control character (BND-07, BND-08)."""
        text = self._scrub(raw.decode("utf-8", "replace"))
        line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
        return self._scrub(line[:EXCERPT_LIMIT])
