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


class Ints(_Packed):
    """``int[]``."""

    oid, element = 1007, 23


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
def _fixed(code: str, count: int) -> struct.Struct:
    return struct.Struct(">" + f"i{code}" * count)


def _numbers(kind: type[_Packed], code: str, size: int, values: Sequence[int]) -> Any:
    count = len(values)
    paired = [size] * (2 * count)
    paired[1::2] = values
    return kind(_head(kind, count) + _fixed(code, count).pack(*paired))


def bigints(values: Sequence[int]) -> Bigints:
    """Pack 64-bit integers."""
    made: Bigints = _numbers(Bigints, "q", 8, values)
    return made


def ints(values: Sequence[int]) -> Ints:
    """Pack 32-bit integers."""
    made: Ints = _numbers(Ints, "i", 4, values)
    return made


def uuids(values: Sequence[bytes]) -> Uuids:
    """Pack ids that are given as 16 bytes each."""
    return Uuids(_head(Uuids, len(values)) + b"".join([_UUID_LENGTH + value for value in values]))


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
    for kind in (Uuids, Bigints, Ints, Texts, Byteas):
        connection.adapters.register_dumper(kind, _DUMPERS[kind])


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> Any:
        """It is packed already."""
        return obj


_DUMPERS: Final = {
    kind: type(f"{kind.__name__}Dumper", (_PackedDumper,), {"oid": kind.oid})
    for kind in (Uuids, Bigints, Ints, Texts, Byteas)
}
