"""Reading a request's body under our own bounds: bytes, unpacked bytes, depth and time."""

from __future__ import annotations

import asyncio
import functools
import operator
import zlib
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from ...domain.errors import InvalidFieldError, TooLargeError
from .errors import BadBodyError, BodyTooLargeError, MediaTypeError, SlowBodyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

T = TypeVar("T")

DEPTH: Final = 64


async def read(request: web.Request, *, limit: int, seconds: float) -> bytes:
    """The body, unpacked."""
    _bounded(b"", limit, request.content_length or 0)
    unpack = _unpacker(request.headers.get("Content-Encoding", "identity").strip().lower())
    if unpack is None and request.content.is_eof():  # it came with the header
        return _bounded(request.content.read_nowait(), limit)
    parts: list[bytes] = []
    count = arrived = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.content.iter_any():
                arrived += len(part)  # also what stands behind the end of a packed body
                made = part if unpack is None else _unpacked(unpack, part, limit - count + 1)
                count += len(made)
                _bounded(part, limit, max(count, arrived))
                parts.append(made)
    except TimeoutError:
        raise SlowBodyError(f"the body did not arrive within {seconds:g} s") from None
    if unpack is not None and not unpack.eof:
        raise BadBodyError("the packed body ends too early")
    return b"".join(parts)


def _bounded(part: bytes, limit: int, size: int | None = None) -> bytes:
    """*part*, unless it (or so many bytes in all) is too much."""
    if (len(part) if size is None else size) > limit:
        raise BodyTooLargeError(f"the body is over {limit:,} bytes; stage the data and pass a reference")
    return part


def _unpacker(encoding: str) -> Any:
    if encoding in {"", "identity"}:
        return None
    if encoding in {"gzip", "deflate"}:
        return zlib.decompressobj(47 if encoding == "gzip" else zlib.MAX_WBITS)
    raise MediaTypeError(f"content encoding {encoding[:20]!r} is not taken; send it plain or as gzip")


def _unpacked(unpack: Any, part: bytes, most: int) -> bytes:
    """At most *most* bytes: a bomb is not unpacked to see how big it is."""
    try:
        made: bytes = unpack.decompress(part, most)
    except zlib.error:
        raise BadBodyError("the packed body is damaged") from None
    return made


def parse(raw: bytes, content_type: str, kind: type[T]) -> T:
    """JSON as *kind*; a missing body is an empty object."""
    if not raw:
        raw = b"{}"
    elif content_type not in {"application/json", "application/octet-stream", ""}:
        raise MediaTypeError(f"{content_type[:60]!r} is not taken; send application/json")
    try:
        found = msgspec.json.decode(raw)  # exact: orjson would make a float of an integer over 64 bits
    except RecursionError:
        raise TooLargeError("body", f"nested deeper than {DEPTH}", "flatten it") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBodyError(f"no JSON: {str(error)[:200]}") from None
    check_depth(found)
    if isinstance(found, dict):
        # JSON Schema calls 1.0 an integer.  What a job is to work on is left as it came.
        found = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in found.items()}
    return convert(found, kind, "body")


def parse_form(raw: bytes, content_type: str, kind: type[T]) -> T:
    """The fields of a form as *kind*; an empty one was not filled in, those of a list may stand often."""
    if raw and content_type != "application/x-www-form-urlencoded":
        raise MediaTypeError(f"{content_type[:60]!r} is not taken; send the form as it is")
    try:
        pairs = parse_qsl(raw.decode(), max_num_fields=250)
    except ValueError:
        raise BadBodyError("this is no form") from None
    lists = {one.encode_name for one in msgspec.structs.fields(kind) if one.default_factory is list}  # type: ignore[arg-type]
    fields: dict[str, Any] = dict(pairs)
    fields |= {name: [value for other, value in pairs if other == name] for name in lists & fields.keys()}
    return convert(fields, said(kind), "form", strict=False)


def check_depth(value: Any) -> None:
    """Refuse what is nested deeper than ``DEPTH``."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH:
            raise TooLargeError("body", f"nested deeper than {DEPTH}", "flatten it")
        inside: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inside.extend(one.values())
            elif isinstance(one, list):
                inside.extend(one)
        level = inside


def query(given: Mapping[str, str], kind: type[T]) -> T:
    """The parameters of a URL as *kind*; each may stand once."""
    names = [name for name, _ in given.items()]  # a MultiDict has one for each time
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidFieldError(twice[:60], "given twice", "give it once")
    return convert(dict(given), said(kind), "query", strict=False)


def said(kind: type[T]) -> type[T]:
    """*kind* as texts can say it: what may be null is left out instead, and the word "null" is a name like any other."""
    made: type[T] = _said(kind)  # type: ignore[arg-type] # a class is hashable
    return made


@functools.cache
def _said(kind: Any) -> Any:
    hints = get_type_hints(kind, include_extras=True)
    kinds = {name: [one for one in get_args(hint) if one is not NoneType] for name, hint in hints.items()}
    told = [
        (one.name, functools.reduce(operator.or_, kinds[one.name]), one.default)
        for one in msgspec.structs.fields(kind)
        if NoneType in get_args(hints[one.name])
    ]
    return msgspec.defstruct(kind.__name__, told, bases=(kind,), kw_only=True)


def convert(found: Any, kind: type[T], what: str, *, strict: bool = True) -> T:
    """Plain values as *kind*, with the path of the first bad one.

    Raises:
        InvalidFieldError: it does not fit.
    """
    try:
        return msgspec.convert(found, kind, strict=strict)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        where = path.rstrip("`").removeprefix("$").lstrip(".") or _named(problem) or what
        raise InvalidFieldError(where[:200], problem[:300], "see /api/openapi.json for what is taken") from None


def _named(problem: str) -> str:
    """The field that a problem names itself: unknown, or missing."""
    _, _, rest = problem.partition("field `")
    return rest.partition("`")[0]
