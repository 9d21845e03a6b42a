"""From a request to an answer: one middleware for everything, one dispatcher for every route."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web

from ...domain.errors import ForbiddenError, JobLogError
from . import auth, bodies, problems
from .auth import Principal
from .errors import (
    BadRequestError,
    BodyTooLargeError,
    MethodError,
    ReadOnlyError,
    RouteNotFoundError,
    ScopeMissingError,
    UnauthorizedError,
    UnexpectedError,
)
from .route import Answer, Call, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from .service import Service

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

logger = logging.getLogger(__name__)

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{8,64}")
_NOBODY: Final = Principal("nobody", frozenset(), via="nobody")
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": CSP,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "joblog",
}
REQUEST_ID: Final = web.RequestKey("request_id", str)


def make_app(service: Service, routes: Sequence[Route]) -> web.Application:
    """The application: its routes, behind one middleware."""
    app = web.Application(middlewares=[_outermost(service)], client_max_size=service.limits.body_bytes)
    for route in routes:
        if route.method == "GET":
            app.router.add_get(route.path, _handler(service, route), allow_head=True)
        else:
            app.router.add_route(route.method, route.path, _handler(service, route))

    async def life(_: web.Application) -> Any:
        await service.start()
        yield
        await service.stop()

    app.cleanup_ctx.append(life)
    return app


# -- around every request --------------------------------------------------------------------------------------------


def _outermost(service: Service) -> Any:
    @web.middleware
    async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = service.log.clock.monotonic()
        given = request.headers.get("X-Request-Id", "")
        request_id = request[REQUEST_ID] = given if _REQUEST_ID.fullmatch(given) else service.log.ids.next()
        try:
            answer = await handler(request)
        except (JobLogError, web.HTTPException) as error:
            answer = _refusal(_as_ours(error, request), request, request_id)
            if answer.status in {401, 403}:
                where = auth.address_of(request, service.settings.proxies)
                logger.warning("request %s from %s was refused with %d", request_id, where, answer.status)
        except ConnectionError:
            raise  # the client went away
        except Exception:
            logger.exception("request %s failed", request_id)
            text = "something went wrong here; the service's log has it under this request id"
            answer = _refusal(UnexpectedError(text), request, request_id)
        if not answer.prepared:
            answer.headers["X-Request-Id"] = request_id
            for name, value in _HEADERS.items():
                answer.headers.setdefault(name, value)
            answer.headers.setdefault("Cache-Control", "no-store")
        resource = request.match_info.route.resource
        path = resource.canonical if resource is not None else "(none)"
        service.requests.add(request.method, path, answer.status, service.log.clock.monotonic() - began)
        return answer

    return around


def _as_ours(error: JobLogError | web.HTTPException, request: web.Request) -> JobLogError:
    """What aiohttp's router refuses, as one of ours."""
    if isinstance(error, JobLogError):
        return error
    if isinstance(error, web.HTTPMethodNotAllowed):
        refusal = MethodError(f"{request.method} is not taken here; use {', '.join(sorted(error.allowed_methods))}")
        refusal.allowed = ", ".join(sorted(error.allowed_methods))
        return refusal
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return BodyTooLargeError("the body is too large")
    if error.status == web.HTTPNotFound.status_code:
        return RouteNotFoundError("there is nothing under this path; see /api/openapi.json")
    return BadRequestError(error.reason[:200])


def _refusal(error: JobLogError, request: web.Request, request_id: str) -> web.Response:
    status = problems.status_of(error, conditional="If-Match" in request.headers)
    made = problems.document(error, status, request_id)
    answer = web.Response(status=status, body=problems.encode(made), content_type=problems.MEDIA)
    if isinstance(error, UnauthorizedError):
        answer.headers["WWW-Authenticate"] = 'Bearer realm="joblog"'
    if isinstance(error, ScopeMissingError):
        answer.headers["WWW-Authenticate"] = 'Bearer realm="joblog", error="insufficient_scope"'
    if isinstance(error, MethodError) and error.allowed:
        answer.headers["Allow"] = error.allowed
    if "retry_after" in made:
        answer.headers["Retry-After"] = str(made["retry_after"])
    if request.body_exists and not request.content.at_eof():
        answer.force_close()  # what is left of the body is not read
    return answer


# -- one route -------------------------------------------------------------------------------------------------------


def _handler(service: Service, route: Route) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await answer(request)
        except JobLogError as error:
            if not route.page or "text/html" not in request.headers.get("Accept", ""):
                raise
            return await _refusal_page(service, route, request, error)

    async def answer(request: web.Request) -> web.StreamResponse:
        principal = _NOBODY if not route.scope else await _who(service, request)
        principal.check(route.scope, whole=route.whole)
        auth.check_site(request, principal)
        if service.settings.read_only and route.is_command:
            raise ReadOnlyError("this service only reads; send commands to one that was started without --read-only")
        call = Call(
            service,
            request,
            route,
            request[REQUEST_ID],
            auth.address_of(request, service.settings.proxies),
            principal,
            bodies.query(_filled(request.query) if route.page else request.query, route.query),
        )
        if route.body is not None:
            limits = service.limits
            raw = await bodies.read(request, limit=limits.body_bytes, seconds=limits.body_seconds)
            media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            call.body = (bodies.parse_form if route.is_form else bodies.parse)(raw, media, route.body)
        if route.needs_key:
            _ = call.key
        if route.on_loop:
            if route.is_command and route.scope:
                _check(call, may=await service.may(principal, route.scope))
            made = await route.handler(call)
            return made if isinstance(made, web.StreamResponse) else _response(made)
        return _response(await service.ask(_encoded, route, call))

    return handle


def _filled(query: Any) -> Any:
    """The fields of a form that were filled in."""
    return {name: value for name, value in query.items() if value}


async def _refusal_page(service: Service, route: Route, request: web.Request, error: JobLogError) -> web.Response:
    """A refusal for people, who stay signed in as who they are."""
    from ..web.pages import refusal_page

    call = Call(service, request, route, request[REQUEST_ID], "", service.auth.cached(request) or _NOBODY)
    status = problems.status_of(error)
    return _response(await service.ask(refusal_page, call, error, status))


async def _who(service: Service, request: web.Request) -> Principal:
    known = service.auth.cached(request)
    return known if known is not None else await service.ask(service.auth.look_up, request)


def _check(call: Call, *, may: bool) -> None:
    """A right that was withdrawn within the second for which it is remembered counts for every command."""
    if not may:
        raise ForbiddenError(f"{call.principal.name} may not do this any more")


def _encoded(route: Route, call: Call) -> Answer:
    """The handler's answer, its body encoded in the thread that made it."""
    if route.is_command and route.scope and not route.asks:
        _check(call, may=call.may())
    made = route.handler(call)
    answer = made if isinstance(made, Answer) else Answer(made, route.status)
    if answer.body is not None and not isinstance(answer.body, bytes):
        answer.body = orjson.dumps(answer.body)
    return answer


def _response(answer: Any) -> web.Response:
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    body = answer.body
    if body is not None and not isinstance(body, bytes):
        body = orjson.dumps(body)
    headers = dict(answer.headers)
    if body is not None:
        headers["Content-Type"] = answer.media
    return web.Response(status=answer.status, body=body, headers=headers)
