"""Sealing of kept credentials, with a key from outside the database (SEC-02)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import NeedsOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.fernet import MultiFernet

KEY: Final = "JOBLOG_SECRET_KEY"
KEY_FILE: Final = "JOBLOG_SECRET_KEY_FILE"


def new_key() -> str:
    """A key for ``JOBLOG_SECRET_KEY``."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


class Sealer:
    """Fernet (AES-128-CBC, HMAC-SHA256) of the cryptography library.  Of several keys the first seals, all open."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._made: MultiFernet | None = None

    def sealed(self, tenant: str, name: str, value: str) -> bytes:
        """The value, readable with the key alone, and only as *name* of *tenant*."""
        return self._fernet().encrypt(json.dumps([tenant, name, value]).encode())

    def opened(self, tenant: str, name: str, sealed: bytes) -> str:
        """Undo ``sealed``.

        Raises:
            NeedsOperator: another key, or a row that was changed or moved.
        """
        from cryptography.fernet import InvalidToken

        try:
            *place, value = json.loads(self._fernet().decrypt(sealed))
        except (InvalidToken, ValueError):
            raise NeedsOperator("credential-unreadable", f"cred:{name} does not open with this {KEY}") from None
        if place != [tenant, name]:
            raise NeedsOperator("credential-unreadable", f"cred:{name} was sealed as another one")
        return str(value)

    def _fernet(self) -> MultiFernet:
        if self._made is None:
            from cryptography.fernet import Fernet, MultiFernet

            try:
                self._made = MultiFernet([Fernet(key) for key in self._keys()])
            except ValueError:
                raise NeedsOperator(
                    "credential-key-missing", f"{KEY} is no key; `joblog credentials key` makes one"
                ) from None
        return self._made

    def _keys(self) -> list[str]:
        given = self._environ.get(KEY, "")
        if not given and (path := self._environ.get(KEY_FILE, "")):
            try:
                given = Path(path).read_text(encoding="ascii")
            except (OSError, UnicodeDecodeError):
                raise NeedsOperator("credential-key-missing", f"the file of {KEY_FILE} can't be read") from None
        keys = given.replace(",", " ").split()
        if not keys:
            raise NeedsOperator(
                "credential-key-missing", f"set {KEY} or {KEY_FILE}; `joblog credentials key` makes one"
            )
        return keys
