"""Refusals as problem details (RFC 9457); ``docs/errors.md`` is the one table of their statuses."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ...domain.errors import InputError, JobLogError, VersionConflictError

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA: Final = "application/problem+json"
_ROW: Final = re.compile(r"^\| `(.*?)` \| `(.*?)` \| (.*?) \| (\d+) \| (\d+) \| (.*?) \|$", re.MULTILINE)

#: When to come back, in seconds, where the same again is safe and may succeed.
RETRY_AFTER: Final = {
    "store-busy": 1,
    "store-unavailable": 2,
    "overloaded": 1,
    "view-behind": 1,
    "outcome-unknown": 1,
    "epoch-changed": 1,
}


class Refusal(NamedTuple):
    """A row of docs/errors.md."""

    code: str
    name: str
    means: str
    exit: str
    status: str
    way_out: str


@cache
def refusals() -> dict[str, Refusal]:
    """Every refusal by its code, as the documentation has it: beside us in a package, in docs/ of a working copy."""
    here = Path(__file__).resolve()
    packed = here.with_name("errors.md")
    file = packed if packed.exists() else here.parents[2] / "docs" / "errors.md"
    return {row[0]: Refusal(*row) for row in _ROW.findall(file.read_text(encoding="utf-8"))}


def status_of(error: JobLogError, *, conditional: bool = False) -> int:
    """The documented status of a refusal, or of the nearest class above it; *conditional*: there was an If-Match."""
    if conditional and isinstance(error, VersionConflictError):
        return 412
    codes = (getattr(cls, "code", "") for cls in type(error).__mro__)
    return next(int(refusals()[code].status) for code in codes if code in refusals())


def document(error: JobLogError, status: int, request_id: str) -> dict[str, Any]:
    """The problem itself."""
    made: dict[str, Any] = {
        "type": f"/problems/{error.code}",
        "title": error.code.replace("-", " ").capitalize(),
        "status": status,
        "detail": str(error),
        "code": error.code,
        "request_id": request_id,
    }
    if isinstance(error, InputError):
        made["errors"] = [{"pointer": pointer(error.field), "code": error.code, "detail": error.problem}]
    if (seconds := RETRY_AFTER.get(error.code)) is not None:
        made["retry_after"] = seconds
    return made


def pointer(field: str) -> str:
    """A field's path as a JSON pointer (RFC 6901): ``args.rows[3].name`` is ``/args/rows/3/name``."""
    parts = field.replace("]", "").replace("[", ".").split(".")
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts if part)


def encode(made: Mapping[str, Any]) -> bytes:
    """As bytes; a text that no JSON can hold is shown escaped."""
    try:
        return orjson.dumps(made)
    except TypeError:
        return orjson.dumps({name: _plain(value) for name, value in made.items()})


def _plain(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else str(value)
