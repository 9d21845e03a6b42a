"""Request headers: which may be sent, and which go along to another origin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Headers = list[tuple[str, str]]

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE: Final = re.compile(r"[\t -~]{0,8000}")
#: These say how a message is framed, or to whom; they are the client's own.
_RESERVED: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
#: What is harmless anywhere.  An allow list, because a signature may stand in a header of any name (SEC-07).
_ANYWHERE: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})


def checked(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> Headers:
    """The headers as pairs.

    Raises:
        InvalidFieldError: a name or value that could end a line, or a name that is the client's own.
    """
    pairs = headers.items() if hasattr(headers, "items") else headers
    made: Headers = []
    for name, value in pairs:
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED or name.lower().startswith("proxy-"):
            raise InvalidFieldError(
                "headers", f"no header {name[:40]!r}", "give a plain name that is not the client's own"
            )
        if not _VALUE.fullmatch(value):
            raise InvalidFieldError(f"headers.{name}", "line breaks, or not ASCII, or too long", "encode the value")
        made.append((name, value.strip(" \t")))
    return made


def with_default(headers: Headers, name: str, value: str) -> Headers:
    """The headers, with *value* where they do not give *name*."""
    return headers if any(key.lower() == name.lower() for key, _ in headers) else [*headers, (name, value)]


def for_another_origin(headers: Headers) -> Headers:
    """What goes along when a redirect leaves the origin: no credential, cookie, signature or idempotency key."""
    return [(name, value) for name, value in headers if name.lower() in _ANYWHERE]


def without_body(headers: Headers) -> Headers:
    """What goes along when a redirect turns the request into a GET."""
    return [(name, value) for name, value in headers if not name.lower().startswith("content-")]
