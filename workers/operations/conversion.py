"""What the values of a row become in a column of a declared type; in doubt the row is refused, never the value bent."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from ...domain import storable
from ...domain.errors import InvalidFieldError
from .rows import Code, UnfitError

#: ``date`` is YYYY-MM-DD, ``timestamp`` ISO 8601; one without an offset is taken as UTC.
TYPES: Final = ("integer", "real", "text", "boolean", "date", "timestamp")

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})

Converter = Callable[[Any], Any]


class Conversion:
    """Makes the target's values of a row's; *kinds* has a type for every column the target has."""

    def __init__(self, kinds: Mapping[str, str], null: str | None = None) -> None:
        self._converters = {name: CONVERTERS[kind] for name, kind in kinds.items()}
        self._texts = frozenset(name for name, kind in kinds.items() if kind == "text")
        self._null = null

    def apply(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the values that the row has; what it has no value for is not among them.

        Raises:
            UnfitError: a value that is none of its column's type, or has no column.
        """
        made: dict[str, Any] = {}
        null, texts = self._null, self._texts
        for name, value in values.items():
            if value is None or value == null:
                made[name] = None if name in self._converters else self._convert(name, value)
            elif name in texts and type(value) is str:
                made[name] = value
            else:
                made[name] = self._convert(name, value)
        return made

    def _convert(self, name: str, value: Any) -> Any:
        try:
            return self._converters[name](value)
        except KeyError:
            raise UnfitError(Code.UNKNOWN_COLUMN, "the table has no such column", name) from None
        except UnfitError as unfit:
            raise UnfitError(unfit.code, unfit.text, name) from None


def check_types(columns: Mapping[str, str], field: str = "columns") -> None:
    """Refuse declared types that there are not."""
    for name, kind in columns.items():
        storable.name(name, field)
        if kind not in TYPES:
            raise InvalidFieldError(f"{field}.{name}", f"{kind!r} is no type", f"say one of {', '.join(TYPES)}")


def _text(value: Any) -> str:
    """A text as it is; anything else as its JSON."""
    if type(value) is str:
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _integer(value: Any) -> int:
    is_digits = type(value) is str and _INTEGER.fullmatch(value.strip())
    if is_digits or (type(value) is float and value.is_integer()):
        value = int(value)
    if type(value) is not int:
        raise UnfitError(Code.BAD_VALUE, "no integer")
    if not -storable.INT_LIMIT <= value < storable.INT_LIMIT:
        raise UnfitError(Code.OUT_OF_RANGE, "an integer over 64 bits")
    return value


def _literal(value: Any) -> str:
    """The digits of a number."""
    literal = value.strip() if type(value) is str else str(value) if type(value) in {int, float} else ""
    if not _NUMBER.fullmatch(literal):
        raise UnfitError(Code.BAD_VALUE, "no number")
    return literal


def _real(value: Any) -> float:
    number = float(_literal(value))
    if not math.isfinite(number):
        raise UnfitError(Code.OUT_OF_RANGE, "a number over a double")
    return number


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    word = str(value).strip().lower() if type(value) in {str, int} else ""
    if word not in _TRUE | _FALSE:
        raise UnfitError(Code.BAD_VALUE, "neither true nor false")
    return word in _TRUE


def _date(value: Any) -> date:
    if type(value) is str and _DATE.fullmatch(value.strip()):
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            pass
    raise UnfitError(Code.BAD_VALUE, "no date as 2030-12-31")


def _timestamp(value: Any) -> datetime:
    """An aware instant in UTC."""
    try:
        found = datetime.fromisoformat(value.strip() if type(value) is str else "")
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UnfitError(Code.BAD_VALUE, "no timestamp as 2030-12-31T23:59:59Z") from None


CONVERTERS: Final[Mapping[str, Converter]] = {
    "integer": _integer,
    "real": _real,
    "decimal": _literal,  # of a table that is there, not to be declared: the database reads the digits
    "text": _text,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "local": lambda value: _timestamp(value).replace(tzinfo=None),  # of a table that is there and keeps no offsets
}
