"""JSON as exact as it stands there: numbers that no float keeps stay text, and what is no JSON is refused."""

from __future__ import annotations

import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from ...domain.storable import DEPTH_LIMIT
from .encoding import is_suspect
from .rows import FIELD_LIMIT, Code, UnfitError

_EXACT_LENGTH: Final = 15  # characters: a number this short has too few digits for a float to change


def exact(literal: str) -> float | str:
    """The float of *literal*, or *literal* itself where the float is another number.

    orjson and json round in silence, also integers over 64 bits (orjson): an import must not.
    """
    number = float(literal)
    if len(literal) <= _EXACT_LENGTH and "e" not in literal.lower():
        return number
    try:
        return number if math.isfinite(number) and Decimal(repr(number)) == Decimal(literal) else literal
    except InvalidOperation:  # an exponent beyond all numbers
        return literal


def _refuse(literal: str) -> Any:
    raise UnfitError(Code.INVALID_JSON, f"{literal} is no JSON number")


DECODER: Final = json.JSONDecoder(parse_float=exact, parse_constant=_refuse)


def decode(text: str) -> Any:
    """Read one whole JSON value.

    Raises:
        UnfitError: it is none, or nested too deep.
    """
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError as problem:
        raise UnfitError(Code.INVALID_JSON, f"{problem.msg} at character {problem.pos + 1}") from None
    except ValueError:
        raise UnfitError(Code.INVALID_JSON, "an integer of thousands of digits") from None
    except RecursionError:
        raise too_deep() from None


def too_deep() -> UnfitError:
    return UnfitError(Code.TOO_DEEP, f"nested deeper than {DEPTH_LIMIT} levels")


def as_row(value: Any, text: str, *, check: bool) -> dict[str, Any]:
    """The row that *value*, read from *text*, is.

    Raises:
        UnfitError: it is no object, or holds what can't be stored.
    """
    if type(value) is not dict:
        raise UnfitError(Code.NOT_AN_OBJECT, f"a JSON {_KINDS[type(value)]}, where a row is an object")
    if check or "\\u" in text or text.find("{", 1) > 0 or "[" in text:
        for name, field in value.items():
            _check(name, "")
            _check(field, name)
            if check and type(field) in {dict, list} and len(json.dumps(field, ensure_ascii=False)) > FIELD_LIMIT:
                raise UnfitError(Code.OVER_LONG, f"over {FIELD_LIMIT:,} characters", name)
    return value


_KINDS: Final = {
    str: "text",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "list",
}


def _check(value: Any, column: str, depth: int = 1) -> None:
    if type(value) is str:
        if is_suspect(value):
            raise UnfitError(Code.UNSTORABLE, "NUL or a lone surrogate in a text", column)
        if len(value) > FIELD_LIMIT:
            raise UnfitError(Code.OVER_LONG, f"{len(value):,} characters; at most {FIELD_LIMIT:,}", column)
    elif type(value) in {dict, list}:
        if depth >= DEPTH_LIMIT:
            raise too_deep()
        for inner in value:
            _check(inner, column, depth + 1)
        if type(value) is dict:
            for inner in value.values():
                _check(inner, column, depth + 1)
