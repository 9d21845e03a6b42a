"""Secrets by reference: ``env:NAME``, ``file:PATH``, ``cred:NAME``; the value only at the last moment (SEC-01…04).

A job, a setting, an error or a page holds the reference.  Each value that is resolved is withheld from everything that
this process writes from then on (``domain/withheld.py``).
"""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn

from ...domain import storable, withheld
from ...domain.errors import InvalidFieldError
from ...eventstore import credentials
from ..errors import NeedsOperator
from .sealing import Sealer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...eventstore.store import Store

_FILE_LIMIT: Final = 64 * 1024


class Secret:
    """A value that shows itself nowhere by accident: not printed, formatted, pickled, compared in open time."""

    __slots__ = ("__value", "reference")

    def __init__(self, reference: str, value: str) -> None:
        self.reference, self.__value = reference, value

    def reveal(self) -> str:
        """The value; for the one place that sends it."""
        return self.__value

    def __repr__(self) -> str:
        return f"<secret {self.reference}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self.__value.encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash(self.reference)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret stays in its process; hand its reference on")


class Reference(NamedTuple):
    """Where a secret is kept."""

    kind: Literal["env", "file", "cred"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_reference(text: str, field: str = "secret") -> Reference:
    """Read a reference.

    Raises:
        InvalidFieldError: it is none.  The text is not repeated: it may be the secret itself.
    """
    kind, _, name = text.partition(":")
    good = {
        "env": name.isascii() and name.isidentifier(),
        "file": name.startswith("/") and storable.escape(name) == name,
        "cred": 0 < len(name) <= storable.NAME_LIMIT and name.isprintable(),
    }
    if not good.get(kind):
        raise InvalidFieldError(field, "no reference to a secret", "say env:NAME, file:/PATH or cred:NAME")
    return Reference(kind, name)  # type: ignore[arg-type]


class Secrets:
    """Resolves references where the workers run."""

    def __init__(self, environ: Mapping[str, str], store: Store | None = None) -> None:
        self._environ, self._store = environ, store
        self._sealer = Sealer(environ)

    def resolve(self, text: str, *, tenant: str = "default") -> Secret:
        """The secret behind a reference; ``cred:`` is the *tenant*'s own.

        Raises:
            NeedsOperator: it is not there, or can't be opened; names the reference and the way out.
        """
        reference = parse_reference(text)
        value = getattr(self, f"_{reference.kind}")(reference, tenant)
        if not value:
            raise NeedsOperator("credential-missing", f"{reference} is empty")
        withheld.withhold(str(reference), value)
        return Secret(str(reference), value)

    def _env(self, reference: Reference, _: str) -> str:
        if (value := self._environ.get(reference.name)) is None:
            raise NeedsOperator("credential-missing", f"{reference} is not set where the worker runs")
        return value

    def _file(self, reference: Reference, _: str) -> str:
        try:
            with Path(reference.name).open("rb") as file:
                content = file.read(_FILE_LIMIT + 1)
            if len(content) > _FILE_LIMIT:
                raise NeedsOperator("credential-missing", f"{reference} is over {_FILE_LIMIT:,} bytes")
            return content.decode().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError):
            raise NeedsOperator("credential-missing", f"{reference} can't be read where the worker runs") from None

    def _cred(self, reference: Reference, tenant: str) -> str:
        sealed = None if self._store is None else credentials.find(self._store, tenant, reference.name)
        if sealed is None:
            text = f"{reference} is not kept for tenant {tenant!r}; run `joblog credentials set {reference.name}`"
            raise NeedsOperator("credential-missing", text)
        return self._sealer.opened(tenant, reference.name, sealed)

    def keep(self, name: str, value: str, *, tenant: str = "default") -> None:
        """Seal *value* and keep it as ``cred:NAME``.

        Raises:
            NeedsOperator: there is no key to seal it with.
        """
        parse_reference(f"cred:{name}", "name")
        assert self._store is not None  # noqa: S101 - made with a store by whoever keeps anything
        credentials.put(self._store, tenant, name, self._sealer.sealed(tenant, name, value))
