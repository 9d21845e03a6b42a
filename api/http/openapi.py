"""The OpenAPI 3.1 document, made of the route table and its types; no other source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from . import bodies
from .auth import SCOPES
from .following import EVENTS, NDJSON
from .route import Nothing
from .types import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .route import Route

_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)(?::([^}]*))?\}")
NO_CONTENT: Final = 204
_ABOUT: Final = {
    "id": {"type": "string", "format": "uuid"},
}


def build(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The document."""
    shown = [route for route in routes if not route.page]
    kinds: list[Any] = [Problem]
    for route in shown:
        answers = (route.answer, *(kind for _, kind in route.other), route.body, bodies.said(route.query))
        kinds += [kind for kind in answers if kind is not None and kind is not Nothing]
    schemas, components = msgspec.json.schema_components(list(dict.fromkeys(kinds)), ref_template=_REF)
    by_kind = dict(zip(dict.fromkeys(kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, by_kind, components)
    queries = {route.query.__name__ for route in shown}
    kept = {name: schema for name, schema in components.items() if name not in queries}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "joblog",
            "version": version,
            "description": "A durable job log over HTTP. Every refusal is a problem document; each type is a page.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": kept,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Scopes: " + "; ".join(f"`{name}` {about}" for name, about in SCOPES.items()),
                }
            },
        },
    }


def _operation(route: Route, by_kind: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": route.name, "summary": route.summary}
    if (about := (route.handler.__doc__ or "").strip().partition("\n")[0]) and about != route.summary:
        made["description"] = about
    made["security"] = [{"token": []}] if route.scope else []
    if route.scope:
        made["x-scope"] = route.scope
    parameters = [*_in_path(route), *_in_query(route, components), *_in_headers(route)]
    if parameters:
        made["parameters"] = parameters
    if route.body is not None and route.body is not Nothing:
        made["requestBody"] = {
            "content": {"application/json": {"schema": by_kind[route.body]}},
            "required": _needed(route.body),
        }
    made["responses"] = _responses(route, by_kind)
    return made


def _needed(body: Any) -> bool:
    return any(one.required for one in msgspec.structs.fields(body))


def _in_path(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, pattern in _PARAMETER.findall(route.path):
        schema: dict[str, Any] = _ABOUT.get(name, {"type": "string", "minLength": 1})
        if pattern and re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", pattern):
            schema = {"type": "string", "enum": pattern.split("|")}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    return found


def _in_query(route: Route, components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is Nothing:
        return []
    schema = components[route.query.__name__]
    needed = schema.get("required", [])
    kinds = {  # without the default of what is left out
        name: {key: value for key, value in kind.items() if (key, value) != ("default", None)}
        for name, kind in schema["properties"].items()
    }
    return [{"name": name, "in": "query", "required": name in needed, "schema": kind} for name, kind in kinds.items()]


def _in_headers(route: Route) -> list[dict[str, Any]]:
    key = {"type": "string", "pattern": "^[A-Za-z0-9._:-]{20,64}$"}
    found: list[dict[str, Any]] = []
    if route.needs_key:
        found.append({"name": "Idempotency-Key", "in": "header", "required": True, "schema": key})
    return found


def _responses(route: Route, by_kind: dict[Any, Any]) -> dict[str, Any]:
    if route.answer is None:
        content: dict[str, Any] = {route.media: {"schema": {"type": "string"}}}
    else:
        content = {route.media: {"schema": by_kind[route.answer]}}
    if route.handler.__name__ == "follow_log":
        content |= {NDJSON: {"schema": {"type": "string"}}, EVENTS: {"schema": {"type": "string"}}}
    made: dict[str, Any] = {
        str(status): {"description": "Done."} | ({} if status == NO_CONTENT else {"content": content})
        for status in (route.status, *route.other_status)
    }
    for status, kind in route.other:
        made[str(status)] = {"description": "Done.", "content": {route.media: {"schema": by_kind[kind]}}}
    made["default"] = {
        "description": "A refusal.",
        "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}},
    }
    return made
