"""Standard Webhooks 1.0: what a receiver checks, and how."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from ...domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX: Final = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def key_of(secret: str) -> bytes:
    """The bytes of a secret ``whsec_…``, 24 to 64 of them.

    Raises:
        InvalidFieldError: it is none.  The text is not repeated.
    """
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise InvalidFieldError("secret", "no secret of a webhook", "whsec_ and 24 to 64 bytes in base64")
    return key


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of one attempt under one key."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(keys: Iterable[bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of one attempt; every key signs, so that a receiver may know the old one or the new one."""
    signatures = " ".join(signature(key, message_id, timestamp, body) for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signatures,
        "Content-Type": "application/json",
    }


def verify(key: bytes, given: dict[str, str], body: bytes) -> bool:
    """What a receiver does, for its tests: whether one of the signatures is that of *key*, compared in constant time."""
    mine = signature(key, given["webhook-id"], int(given["webhook-timestamp"]), body)
    return any(hmac.compare_digest(mine, one) for one in given["webhook-signature"].split(" "))
