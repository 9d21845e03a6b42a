"""What the service says about itself: the OpenAPI document, and a page for each type of problem."""

from __future__ import annotations

import html
import re
from functools import cache
from typing import TYPE_CHECKING

import orjson

from ..version import version
from . import openapi, problems
from .errors import RouteNotFoundError
from .route import Answer

if TYPE_CHECKING:
    from .route import Call


def problem_page(call: Call) -> Answer:
    """What a type of problem means, and the way out."""
    found = problems.refusals().get(call.request.match_info["code"])
    if found is None:
        raise RouteNotFoundError("there is no such type of problem; docs/errors.md lists them all")
    parts = {name: _marked(text) for name, text in found._asdict().items()}
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>{code}</title>"
        "<h1>{code}</h1><p>{means}.</p><p>Way out: {way_out}.</p>"
        "<p>Status {status}; exit code {exit} on the command line; class {name}.</p></html>\n"
    )
    return Answer(page.format(**parts).encode(), media="text/html; charset=utf-8")


def _marked(text: str) -> str:
    return re.sub(r"`+(.+?)`+", r"<code>\1</code>", html.escape(text))


def openapi_document(call: Call) -> Answer:
    """This document."""
    del call
    return Answer(_openapi(), headers={"Cache-Control": "public, max-age=300"})


@cache
def _openapi() -> bytes:
    from .routes import ROUTES

    return orjson.dumps(openapi.build(ROUTES, version() or "0"))
