"""The log as a file over HTTP: the bytes of `joblog export`, and their manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

from ...domain.errors import ForbiddenError, JobLogError
from ...projections.transfer.export import Streamed
from .route import Answer

if TYPE_CHECKING:
    from .route import Call

NDJSON: Final = "application/x-ndjson"


async def export_log(call: Call) -> Answer | web.StreamResponse:
    """The stored events, one a line, chunk by chunk; an answer that breaks off has no end, so nobody takes it for whole."""
    query = call.query
    made = await call.service.ask(Streamed, call.log.store, query.first, query.last)
    where = f"/api/v1/export/manifest?first={made.first}&last={made.last}"
    headers = {"Content-Type": NDJSON, "X-Request-Id": call.request_id, "Cache-Control": "no-store"}
    headers["Link"] = f'<{where}>; rel="describedby"'
    if call.request.method == "HEAD":
        return Answer(b"", headers=headers, media=NDJSON)
    answer = web.StreamResponse(headers=headers)
    await answer.prepare(call.request)
    try:
        while chunk := await _next(call, made):
            await answer.write(chunk)
    except JobLogError as error:
        if call.request.transport is not None:
            call.request.transport.abort()
        raise ConnectionResetError(f"the export broke off: {error}") from error
    await answer.write_eof()
    return answer


async def _next(call: Call, made: Streamed) -> bytes:
    if not await call.service.still(call.principal, call.route.scope):
        raise ForbiddenError("the token was revoked")
    return await call.service.ask(made.chunk)


async def export_manifest(call: Call) -> Answer:
    """What an export of this range comes to: `joblog verify --file` needs it beside the lines, as NAME.manifest.json."""
    query = call.query
    made = await call.service.ask(Streamed, call.log.store, query.first, query.last)
    while await _next(call, made):
        pass
    manifest = await call.service.ask(made.manifest, query.file)
    return Answer(manifest.encoded().encode())
