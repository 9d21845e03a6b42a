"""One gate for every text and payload in the log: storable on every database, or refused by path."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from . import withheld
from .errors import InputError, InvalidFieldError, SecretInInputError, TooLargeError, UnstorableError

NAME_LIMIT: Final = 200  # kinds, queues, tenants, owners, keys: characters
NAME_BYTES: Final = 600  # the same, encoded: four of them fit into one entry of an index on every database
TEXT_LIMIT: Final = 500  # failure texts and reasons: characters
ARGS_LIMIT: Final = 64 * 1024  # a job's arguments, encoded: bytes
CURSOR_LIMIT: Final = 16 * 1024  # a checkpoint's cursor, encoded: bytes
EVIDENCE_LIMIT: Final = 1024 * 1024  # a unit's evidence or a step's result, encoded: bytes
DEPTH_LIMIT: Final = 64
INT_LIMIT: Final = 2**63  # what a 64-bit column and every JSON reader of ours keeps
_CONTAINERS: Final = frozenset({dict, list})
_MAY_HOLD: Final = frozenset({dict, list, str})
_PATH_LIMIT: Final = 60  # of a key inside the path of a bad value: characters

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
# A run of backslashes is matched from its start and given back never: linear on any input.
_RUN_BEFORE_ESCAPE = re.compile("(?<!\\\\)(\\\\++)(?=[u\x00\ud800-\udfff])")
_ESCAPED = re.compile(r"(?<!\\)(\\++)u([0-9a-f]{4})?")

_SECRET_NAME = re.compile(
    r"(?:(?i:password|passwd|passphrase|secret|token|(?:api|access|private)[-_]?key|signature|auth|authorization"
    r"|credential)|(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:pass|pwd|sig))s?[-_]?\d*$"
)
_HARMLESS_NAME = re.compile(r"(?i)(page|next|continuation|sync|cursor|idempotency|fencing)[-_]?tokens?$")
_REFERENCE = re.compile(r"(env|file|cred):.+", re.DOTALL)
_URL = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*)://([^\s\"'<>]+)")
_URL_PARAMETER = re.compile(r"[?&;#]([^=&;#?]+)=([^&;#]+)")


def name(value: object, field: str, *, limit: int = NAME_LIMIT, empty: bool = False) -> str:
    """Check a short identifier: printable, without control characters or lone surrogates.

    Raises:
        InvalidFieldError: not a string, or empty where that is not allowed.
        TooLargeError: over *limit* characters, or 600 bytes.
        UnstorableError: a character that some database can't keep.
        SecretInInputError: a secret value that this process knows.
    """
    if not isinstance(value, str):
        raise InvalidFieldError(field, f"{type(value).__name__} is no text", "give a string")
    if not value and not empty:
        raise InvalidFieldError(field, "empty", f"give 1 to {limit} characters")
    if len(value) > limit:
        raise TooLargeError(field, f"{len(value)} characters", f"at most {limit} are kept")
    if not value.isprintable() and (bad := _CONTROL.search(value)):
        problem = f"character U+{ord(bad[0]):04X} at {bad.start()}"
        raise UnstorableError(field, problem, "use printable characters")
    if withheld.scrub(value) != value:
        raise SecretInInputError(field, "a secret's value", "name it by something else")
    if not value.isascii() and (size := len(value.encode())) > NAME_BYTES:
        raise TooLargeError(field, f"{size} bytes in UTF-8", f"at most {NAME_BYTES} are kept")
    return value


def escape(value: str) -> str:
    r"""Write what no database keeps (NUL, lone surrogates) as ``\uXXXX``; ``unescape`` gives it back.

    A backslash run in front of a ``u``, or of what becomes an escape, is doubled: an odd run means an escape,
    an even one never.
    """
    value = _RUN_BEFORE_ESCAPE.sub(r"\1\1", value)
    return _UNSTORABLE.sub(lambda bad: f"\\u{ord(bad[0]):04x}", value)


def unescape(value: str) -> str:
    """Undo ``escape``."""

    def restore(found: re.Match[str]) -> str:
        run, digits = found[1], found[2] or ""
        kept = run[: len(run) // 2]
        if len(run) % 2 == 0:
            return f"{kept}u{digits}"
        return kept + chr(int(digits, 16)) if digits else found[0]

    return _ESCAPED.sub(restore, value)


def text(value: object, *, limit: int = TEXT_LIMIT) -> str:
    """Make any failure text storable: always possible, bounded, one line's worth of meaning.

    Longer texts are cut at *limit* characters with a mark; what can't be stored is escaped reversibly; a secret value
    that this process knows is replaced by its reference.
    """
    try:
        made = value if type(value) is str else str(value)
    except Exception:  # noqa: BLE001 - the text of a user's exception is user code
        made = f"<{type(value).__name__} without a text>"
    made = withheld.scrub(made)  # before the cut: half a secret would not be found
    cut = made if len(made) <= limit else made[: limit - 1] + "…"
    return escape(cut)


def payload(value: Any, field: str) -> Any:
    """Check that *value* is JSON that every store keeps exactly; returns it unchanged.

    Raises:
        UnstorableError: with the path of the first bad value (NaN, bytes, a lone surrogate, a tuple, a key
        that is no string, an integer over 64 bits, any other type). TooLargeError: nested deeper than 64
        levels.
    """
    try:
        _walk(value, 0)
    except InputError as bad:
        raise type(bad)(field + bad.field, bad.problem, bad.way_out) from None
    return value


def _walk(value: Any, depth: int) -> None:
    """Raise with the path below *value*; the path is only put together on the way out, so a good value pays nothing."""
    kind = type(value)
    if kind is str:
        if not value.isascii() and (bad := _SURROGATE.search(value)):
            problem = f"lone surrogate U+{ord(bad[0]):04X}"
            raise UnstorableError("", problem, "decode the text with errors='replace'")
    elif kind is not dict and kind is not list:
        _check_leaf(value, kind)
    elif depth >= DEPTH_LIMIT:
        problem = f"nested deeper than {DEPTH_LIMIT} levels"
        raise TooLargeError("", problem, "flatten it, or keep a reference")
    else:
        at: Any = 0
        try:
            for at, inner in enumerate(value) if kind is list else value.items():
                if kind is dict and not (type(at) is str and at.isprintable()):
                    _check_key(at)
                known = type(inner)  # nearly every value is one of these two: spares two calls each
                if not (inner.isascii() if known is str else known is int and -INT_LIMIT <= inner < INT_LIMIT):
                    _walk(inner, depth + 1)
        except InputError as bad:
            path = f"[{at}]" if kind is list else _path("", at)
            raise type(bad)(path + bad.field, bad.problem, bad.way_out) from None


def _check_key(key: Any) -> None:
    if type(key) is not str:
        raise UnstorableError("", f"key of type {type(key).__name__}", "use string keys")
    if _UNSTORABLE.search(key):
        raise UnstorableError("", "key with NUL or a lone surrogate", "rename the key")


def _check_leaf(value: Any, kind: type[Any]) -> None:
    if kind is int:
        if not -INT_LIMIT <= value < INT_LIMIT:
            raise UnstorableError("", "integer over 64 bits", "pass it as a string")
    elif kind is float:
        if not math.isfinite(value):
            raise UnstorableError("", f"{value!r} is no JSON number", "pass null or a string")
    elif kind is tuple:
        raise UnstorableError("", "a tuple would come back as a list", "pass a list")
    elif kind is not bool and value is not None:
        problem = f"{kind.__name__} is no JSON value"
        raise UnstorableError("", problem, "pass text, numbers, booleans, null, lists, objects")


def _path(field: str, key: object) -> str:
    return f"{field}.{text(key, limit=_PATH_LIMIT)}"


def bounded(encoded: bytes, field: str, limit: int) -> bytes:
    """Check the size of an encoded payload, in bytes."""
    if len(encoded) > limit:
        way_out = f"at most {limit:,} are kept; stage it and pass a reference"
        raise TooLargeError(field, f"{len(encoded):,} bytes", way_out)
    return encoded


def copied(value: Any) -> Any:
    """A copy of a checked payload: objects and lists anew, everything else can't change."""
    if type(value) is dict:
        return {key: copied(inner) if type(inner) in _CONTAINERS else inner for key, inner in value.items()}
    if type(value) is list:
        return [copied(inner) if type(inner) in _CONTAINERS else inner for inner in value]
    return value


def refuse_secrets(value: Any, field: str) -> None:
    """Refuse what looks like a secret's value where a reference belongs (SEC-*, REC-03).

    Found are: a URL with a password (over HTTP with any user-info: tokens stand there alone), a URL parameter
    or an object key with a secret's name (``token``, ``api_key``, …) unless its value is a reference
    (``env:NAME``, ``file:PATH``, ``cred:ID``).
    """
    try:
        _find_secrets(value)
    except SecretInInputError as bad:
        raise SecretInInputError(field + bad.field, bad.problem, bad.way_out) from None


def _find_secrets(value: Any, key: str = "") -> None:
    """As ``_walk``: the path is put together on the way out.  *key*: under which it stands."""
    if type(value) is str:
        if _is_secret(key, value):
            raise SecretInInputError("", "a secret's value", "pass a reference such as env:NAME")
        if "://" in value:
            _refuse_urls(value)
        return
    at: Any = 0
    try:
        if type(value) is dict:
            for at, inner in value.items():
                if type(inner) in _MAY_HOLD:
                    _find_secrets(inner, at)
        elif type(value) is list:
            for at, inner in enumerate(value):  # noqa: B007 - of the path
                if type(inner) in _MAY_HOLD:
                    _find_secrets(inner)
    except SecretInInputError as bad:
        path = f"[{at}]" if type(value) is list else _path("", at)
        raise SecretInInputError(path + bad.field, bad.problem, bad.way_out) from None


def _is_secret(key: str, value: str) -> bool:
    if not value or not _SECRET_NAME.search(key) or _HARMLESS_NAME.search(key):
        return False
    return not _REFERENCE.match(value)


def _refuse_urls(value: str) -> None:
    for scheme, rest in _URL.findall(value):
        user_info, at, _ = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")
        if at and (user_info.partition(":")[2] or scheme.lower() in {"http", "https"}):
            way_out = "pass env:NAME and put the URL into that variable"
            raise SecretInInputError("", "a URL with user-info", way_out)
        for key, inner in _URL_PARAMETER.findall(rest):
            if _is_secret(key, inner):
                problem = f"a URL with the secret parameter {text(key, limit=_PATH_LIMIT)!r}"
                raise SecretInInputError("", problem, "pass env:NAME instead")
