"""One call of the client: its hops over redirects, and what each answer means."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from yarl import URL

from ..errors import Fatal, OperationError
from . import body as bodies
from . import verdict
from .guard import Approval
from .headers import Headers, for_another_origin, without_body
from .limits import Limits
from .transport import CURRENT

if TYPE_CHECKING:
    from .client import OutboundClient
    from .credential import Credential
    from .retry_after import ResetForm

#: Around each request, also of a redirect: a gate's turn.  What it gives is told each answer, if it can be.
Around = Callable[[], AbstractAsyncContextManager[Any]]

_EXCERPT_BYTES: Final = 4096
_EXCERPT_SECONDS: Final = 1.0
_FAILED_LIMIT: Final = 10_000
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SEE_OTHER: Final = 303
_MOVED: Final = frozenset({301, 302})
_SENT_ONCE: Final = frozenset({"POST", "PATCH"})  #: also by aiohttp, without being kept from it
_STATUSES: Final = range(200, 600)  # 1xx is no answer


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whole and within its bounds."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    url: str = field(repr=False)

    def header(self, name: str) -> str:
        """The first value of a header; empty without it."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            Fatal: it is none.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise Fatal("bad-json", "the answer is no JSON") from None


@dataclass(slots=True)
class Request:
    """What is sent next."""

    method: str
    approval: Approval
    headers: Headers
    body: bytes | None
    secret: Headers = field(default_factory=list, repr=False)  #: of the credential; never part of an error or a log


class Exchange:
    """One call of ``request``: its hops, and what their answers mean."""

    def __init__(
        self,
        client: OutboundClient,
        credential: Credential | None,
        limits: Limits,
        expect: frozenset[int],
        reset_form: ResetForm,
    ) -> None:
        self._client, self._credential, self._limits = client, credential, limits
        self._expect, self._reset_form = expect, reset_form
        self._left = limits.total_ms / 1000  #: seconds; what a gate lets it wait does not count
        self._deadline = 0.0

    async def followed(self, request: Request, around: Around) -> Response:
        """The answer behind as many redirects as allowed.

        Raises:
            TimeoutError: not whole by then.
        """
        for hop in range(self._limits.redirects + 1):
            async with around() as turn:
                answer = await self._timed(request, turn, may_follow=hop < self._limits.redirects)
            if isinstance(answer, Response):
                return answer
            request = answer
        raise AssertionError  # pragma: no cover - the last hop may not follow

    async def _timed(self, request: Request, turn: Any, *, may_follow: bool) -> Response | Request:
        """One hop under the deadline, which is over when the turn is given back: what was answered stands then."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._deadline = began + self._left
        try:
            if self._credential is not None:
                async with asyncio.timeout_at(self._deadline):
                    request.secret = await self._credential.headers_for(request.approval.target, self._client.guard)
            return await self._sent(request, turn, may_follow=may_follow)
        except aiohttp.ClientError as error:
            if request.approval.refusal is not None:
                raise request.approval.refusal from None
            if isinstance(error, TimeoutError) and loop.time() >= self._deadline:
                raise TimeoutError from None  # of the whole, in the middle of a connect
            raise _failure(error) from None
        finally:
            self._left = max(self._left - (loop.time() - began), 0.0)

    async def _sent(self, request: Request, turn: Any, *, may_follow: bool) -> Response | Request:
        """The answer.  Its connection is only used again behind a whole expected one."""
        origin, failed = request.approval.target.origin, self._client.failed
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self._head(request, is_anew=origin in failed)
            judged = await self._judged(request, response, turn, may_follow=may_follow)
            if response.status not in self._expect:
                failed.add(origin)
        except BaseException:
            failed.add(origin)
            raise
        else:
            return judged
        finally:
            if response is not None:
                response.close()  # nothing happens behind a whole answer: its connection is free by then
            if len(failed) > _FAILED_LIMIT:
                failed.clear()

    async def _judged(
        self, request: Request, response: aiohttp.ClientResponse, turn: Any, *, may_follow: bool
    ) -> Response | Request:
        """What was expected, or where it sends us on; anything else is raised."""
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers)
        if turn is not None and (answered := getattr(turn, "answered", None)) is not None:
            await answered(response.status, headers)
        if response.status in self._expect:
            return Response(response.status, headers, await self._body(response), request.approval.target.url)
        location = response.headers.get("Location")
        if may_follow and response.status in _REDIRECTS and location is not None:
            return self._next(request, response.status, location)
        raise await self._verdict(response, headers)

    async def _head(self, request: Request, *, is_anew: bool) -> aiohttp.ClientResponse:
        client, approval = self._client, request.approval
        tls = True if approval.target.scheme == "http" else await client.tls()
        approval.must_look_up = is_anew
        token = CURRENT.set(approval)
        try:
            response = await client.opened().request(
                request.method,
                _url(approval.target.url),
                headers=[*request.headers, *request.secret, ("Accept-Encoding", bodies.ACCEPT_ENCODING)],
                data=request.body,
                allow_redirects=False,
                ssl=tls,
                timeout=_timeout(self._limits.connect_ms / 1000, self._left),
                middlewares=() if request.method in _SENT_ONCE else None,
            )
        finally:
            CURRENT.reset(token)
        client.failed.discard(approval.target.origin)
        return response

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        content, encoding = response.content, _encoding(response)
        if not encoding and content.is_eof() and content.total_bytes <= self._limits.body:
            return content.read_nowait()  # it has come with the head
        made = bytearray()
        try:
            await bodies.read(content.iter_any(), encoding, self._limits.body, made)
        except bodies.TooLargeBodyError:
            raise Fatal("response-too-large", f"over {self._limits.body:,} bytes") from None
        except bodies.UnknownEncodingError:
            raise Fatal("protocol-error", "an encoding that was not offered") from None
        except bodies.BrokenBodyError:
            raise verdict.network("interrupted", "the body can't be unpacked to its end") from None
        return bytes(made)

    def _next(self, request: Request, status: int, location: str) -> Request:
        origin = request.approval.target
        approval = self._client.guard.check_redirect(origin, location)
        method, body, headers = request.method, request.body, request.headers
        if (status == _SEE_OTHER and method != "HEAD") or (status in _MOVED and method == "POST"):
            method, body, headers = "GET", None, without_body(headers)
        if approval.target.origin != origin.origin:
            headers = for_another_origin(headers)
            self._credential = None  # it was meant for where the request was sent
        return Request(method, approval, headers, body)

    async def _verdict(self, response: aiohttp.ClientResponse, headers: tuple[tuple[str, str], ...]) -> OperationError:
        now = self._client.now()
        status = response.status
        if status not in _STATUSES:
            return Fatal("protocol-error", f"status {status}")
        wait = verdict.hint(headers, status, now, reset_form=self._reset_form)
        reference = self._credential.reference if self._credential else ""
        raw = await self._excerpt(response)
        return verdict.of_status(status, wait, now, excerpt=self._client.excerpt(raw), reference=reference)

    async def _excerpt(self, response: aiohttp.ClientResponse) -> bytes:
        """The begin of an error's body, as far as it comes at once: what it says must not hide the status."""
        made = bytearray()
        soon = asyncio.get_running_loop().time() + _EXCERPT_SECONDS
        try:
            async with asyncio.timeout_at(min(soon, self._deadline - 0.001)):
                await bodies.read(response.content.iter_any(), _encoding(response), _EXCERPT_BYTES, made)
        except (
            TimeoutError,
            aiohttp.ClientError,
            bodies.TooLargeBodyError,
            bodies.BrokenBodyError,
            bodies.UnknownEncodingError,
        ):
            pass  # what had come by then is enough
        return bytes(made)


@lru_cache(1024)
def _url(text: str) -> URL:
    return URL(text, encoded=True)


@lru_cache(64)
def _timeout(connect: float, total: float) -> aiohttp.ClientTimeout:
    """Seconds; over the answer's body too, and to the millisecond, not rounded up to a full second."""
    return aiohttp.ClientTimeout(total=max(total, 0.001), connect=connect, ceil_threshold=math.inf)


def _encoding(response: aiohttp.ClientResponse) -> str:
    return ",".join(response.headers.getall("Content-Encoding", []))


def _failure(error: aiohttp.ClientError) -> OperationError:
    """What an exception of the transport means; by its class, and never with its text, which holds the URL."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return verdict.network("dns-failed")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return verdict.network("connect-timeout")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Fatal("tls-refused", "the certificate is not valid for this host")
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        cut = isinstance(error.os_error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError)
        return verdict.network("connect-failed") if cut else Fatal("tls-refused", "no common ground for TLS")
    if isinstance(error, aiohttp.ClientConnectorError):
        return verdict.network("connect-failed")
    if isinstance(error, aiohttp.ClientResponseError):
        return Fatal("protocol-error", "the answer is no HTTP within its bounds")
    return verdict.network("interrupted", "the connection ended before the whole answer")
