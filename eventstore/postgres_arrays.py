"""Arrays in PostgreSQL's binary form, packed in bulk: psycopg dumps element by element, 5 µs for each unit of a batch.

Each kind is a class of its own, so that psycopg sends it under the right type; ``register`` makes a connection know them.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from psycopg.adapt import Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

_INT: Final = struct.Struct(">i").pack
_UUID_LENGTH: Final = _INT(16)
_NULL: Final = _INT(-1)


class _Packed(bytes):
    """The bytes of a parameter, ready to send."""

    __slots__ = ()
    oid = 0
    element = 0


class Uuids(_Packed):
    """``uuid[]``."""

    oid, element = 2951, 2950


class Bigints(_Packed):
    """``bigint[]``."""

    oid, element = 1016, 20


class Texts(_Packed):
    """``text[]``."""

    oid, element = 1009, 25


class Byteas(_Packed):
    """``bytea[]``."""

    oid, element = 1001, 17


def _head(kind: type[_Packed], count: int, *, nulls: bool = False) -> bytes:
    """One dimension that begins at 1, as PostgreSQL's own arrays do; an empty array has none."""
    if not count:
        return struct.pack(">iii", 0, 0, kind.element)
    return struct.pack(">iiiii", 1, nulls, kind.element, count, 1)


@lru_cache(maxsize=64)
def _lengths_and_numbers(count: int) -> struct.Struct:
    return struct.Struct(">" + "iq" * count)


def bigints(values: Sequence[int]) -> Bigints:
    """Pack 64-bit integers."""
    count = len(values)
    paired = [8] * (2 * count)
    paired[1::2] = values
    return Bigints(_head(Bigints, count) + _lengths_and_numbers(count).pack(*paired))


def uuids(values: Sequence[bytes]) -> Uuids:
    """Pack ids that are given as 16 bytes each."""
    return Uuids(_head(Uuids, len(values)) + _UUID_LENGTH.join([b"", *values]))


def byteas(values: Sequence[bytes]) -> Byteas:
    """Pack byte strings."""
    return Byteas(_head(Byteas, len(values)) + b"".join([_INT(len(value)) + value for value in values]))


def texts(values: Sequence[str | None]) -> Texts:
    """Pack texts, None as NULL."""
    packed = [_NULL if value is None else _text(value) for value in values]
    return Texts(_head(Texts, len(values), nulls=_NULL in packed) + b"".join(packed))


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _INT(len(encoded)) + encoded


_topic: Final = lru_cache(maxsize=256)(_text)  #: there are few of them


def topics(values: Sequence[str]) -> Texts:
    """Pack topics."""
    return Texts(_head(Texts, len(values)) + b"".join([_topic(value) for value in values]))


def register(connection: Any) -> None:
    """Let *connection* send packed arrays."""
    for kind in (Uuids, Bigints, Texts, Byteas):
        connection.adapters.register_dumper(kind, _DUMPERS[kind])


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> Any:
        """It is packed already."""
        return obj


_DUMPERS: Final = {
    kind: type(f"{kind.__name__}Dumper", (_PackedDumper,), {"oid": kind.oid})
    for kind in (Uuids, Bigints, Texts, Byteas)
}
