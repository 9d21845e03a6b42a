"""Where the target's database is; a password is never part of what is stored."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from ...domain.errors import InvalidFieldError, SecretInInputError
from ...domain.storable import refuse_secrets

_REFERENCE = "env:"


def check_url(url: str, field: str = "target") -> str:
    """Check what may be stored: ``env:NAME``, or a URL without a password.

    Raises:
        SecretInInputError: a password in it. InvalidFieldError: no URL.
    """
    refuse_secrets(url, field)
    if url.startswith(_REFERENCE):
        if not url.removeprefix(_REFERENCE).isidentifier():
            raise InvalidFieldError(field, f"{url[:80]!r} names no variable", "say env:NAME")
        return url
    if _parsed(url, field).password is not None:
        raise SecretInInputError(field, "a URL with a password", "pass env:NAME and put the URL into that variable")
    return url


def resolve_url(url: str, environ: Mapping[str, str], field: str = "target") -> sa.URL:
    """The URL to connect to, with the password if there is one; not to be stored or shown."""
    if not url.startswith(_REFERENCE):
        return _parsed(check_url(url, field), field)
    name = url.removeprefix(_REFERENCE)
    if not (value := environ.get(name, "")):
        raise InvalidFieldError(field, f"variable {name} is not set here", "set it where the workers run")
    return _parsed(value, field)


def missing_variable(url: str, environ: Mapping[str, str]) -> str:
    """The variable that *url* refers to and that is not set here; else nothing."""
    name = url.removeprefix(_REFERENCE) if url.startswith(_REFERENCE) else ""
    return name if name and not environ.get(name) else ""


def _parsed(url: str, field: str) -> sa.URL:
    """Errors here never repeat the text: it may hold a password."""
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidFieldError(
            field, "no database URL", "say sqlite:///PATH, postgresql+psycopg://HOST/NAME, …"
        ) from None
