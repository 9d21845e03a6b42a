"""Structured fields (RFC 9651), as much of them as rate-limit headers need: lists and dictionaries of items."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_BARE: Final = (
    r'"(?P<text>(?:[ !#-\[\]-~]|\\["\\])*+)"'
    r"|(?P<decimal>-?[0-9]{1,12}\.[0-9]{1,3}(?![0-9]))"
    r"|(?P<integer>-?[0-9]{1,15}(?![0-9.]))"
    r"|(?P<binary>:[A-Za-z0-9+/=]*+:)"
    r"|(?P<boolean>\?[01])"
    r"|(?P<date>@-?[0-9]{1,15}(?![0-9.]))"
    r"|(?P<token>[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*+)"
)
_ITEM: Final = re.compile(_BARE)
_KEY: Final = re.compile(r"[a-z*][a-z0-9_.*-]*+")
_SEMICOLON: Final = re.compile(r"; *+")
_COMMA: Final = re.compile(r"[ \t]*+,[ \t]*+")


class Bare(NamedTuple):
    """A value without its parameters: *kind* is text, decimal, integer, binary, boolean, date or token."""

    kind: str
    raw: str


class Item(NamedTuple):
    """A value with its parameters."""

    value: Bare
    parameters: dict[str, Bare]


class MalformedError(ValueError):
    """Not of the grammar; the whole field is to be ignored (internal)."""


def items(field: str) -> list[Item]:
    """The members of a list.

    Raises:
        MalformedError: anything out of the grammar.
    """
    return [item for _, item in _members(field, keyed=False)]


def dictionary(field: str) -> dict[str, Item]:
    """The members of a dictionary; of a key that comes twice, the last.

    Raises:
        MalformedError: anything out of the grammar.
    """
    return dict(_members(field, keyed=True))


def _members(field: str, *, keyed: bool) -> list[tuple[str, Item]]:
    members, at = [], 0
    field = field.strip(" ")
    while True:
        key = ""
        if keyed:
            key, at = _taken(_KEY, field, at)
        value, at = _value(field, at, optional=keyed, sign="=" if keyed else "")
        parameters, at = _parameters(field, at)
        members.append((key, Item(value, parameters)))
        if at == len(field):
            return members
        _, at = _taken(_COMMA, field, at)


def _parameters(field: str, at: int) -> tuple[dict[str, Bare], int]:
    found: dict[str, Bare] = {}
    while semicolon := _SEMICOLON.match(field, at):
        key, at = _taken(_KEY, field, semicolon.end())
        found[key], at = _value(field, at, optional=True, sign="=")
    return found, at


def _value(field: str, at: int, *, optional: bool, sign: str) -> tuple[Bare, int]:
    if sign and not field.startswith(sign, at):
        if optional:
            return Bare("boolean", "?1"), at
        raise MalformedError
    match = _ITEM.match(field, at + len(sign))
    if match is None:
        raise MalformedError
    return Bare(match.lastgroup or "", match[0]), match.end()


def _taken(pattern: re.Pattern[str], field: str, at: int) -> tuple[str, int]:
    match = pattern.match(field, at)
    if match is None:
        raise MalformedError
    return match[0], match.end()
