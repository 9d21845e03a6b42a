"""Looks at a source once, before the first unit, and decides how it is to be read."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Final

from ...domain.errors import InvalidFieldError
from .container import Container, open_file, split_path
from .csv_dialect import Dialect, sniff
from .csv_header import read_header
from .decoded import Decoded
from .digest import measure
from .encoding import choose_encoding, error_handler, size_of
from .json_values import decode
from .plan import Plan
from .reading import row_reader, take
from .rows import Cursor, UnfitError

FORMATS: Final = ("csv", "ndjson", "json")
_SAMPLE: Final = 64 * 1024  # bytes
_SAMPLE_ROWS: Final = 1000  # at most, and of at most a million characters
_SUFFIXES: Final = {".csv": "csv", ".tsv": "csv", ".tab": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson"}


@dataclass(frozen=True)
class Declared:
    """What the user says about a source; all else is told from its content, and in doubt refused."""

    format: str = ""  #: csv, ndjson or json
    encoding: str = ""
    header: bool = True  #: whether the first record of CSV names the columns
    names: Sequence[str] = ()  #: of the columns of CSV, in place of the header's
    dialect: Mapping[str, Any] = field(default_factory=dict)  #: some parameters of ``Dialect``


class Look:
    """What the first bytes say."""

    def __init__(self, container: Container, name: str, declared: Declared) -> None:
        self.container, self.name, self.declared = container, name, declared
        head = container.open_at(0).read(_SAMPLE)
        self.is_whole = len(head) < _SAMPLE
        self.encoding, self.mark = choose_encoding(head, declared.encoding)
        decoder = codecs.getincrementaldecoder(self.encoding)(error_handler(self.encoding))
        self.sample = decoder.decode(head[self.mark :])

    def open_at(self, offset: int) -> Decoded:
        return Decoded(self.container.open_at(offset), self.encoding)


def make_plan(path: str, declared: Declared | None = None) -> Plan:
    """Hash the file and decide how it is read; ``path.zip!member`` names a member.

    Raises:
        SourceError: it can't be read. InputError: it can't be read so, with the way out.
    """
    declared = declared or Declared()
    path, member = split_path(path)
    with open_file(path) as file:
        digest = measure(file)
        container = Container(path, file, member)
        look = Look(container, container.member or path, declared)
        chosen = _format(look)
        dialect, columns, start = _csv(look) if chosen == "csv" else _json(look, chosen)
    return Plan(
        path=path,
        container=container.kind,
        member=container.member,
        format=chosen,
        encoding=look.encoding,
        dialect=dialect,
        columns=columns,
        digest=digest,
        total=container.total,
        start=start,
    )


def _format(look: Look) -> str:
    """Name the format: the declared one, else by the name's ending, else by content."""
    if declared := look.declared.format:
        if declared not in FORMATS:
            raise InvalidFieldError("format", f"{declared[:40]!r} is not read", f"say one of {', '.join(FORMATS)}")
        return declared
    suffix = _suffix(look)
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    begin = look.sample.lstrip(" \t\r\n")
    if begin[:1] == "[" and (suffix == ".json" or begin[1:].lstrip(" \t\r\n")[:1] in {"{", "]", ""}):
        return "json"
    if begin[:1] == "{" and _is_object(begin.partition("\n")[0]):
        return "ndjson"
    if suffix == ".json":
        problem = "neither a JSON array nor one JSON object a line"
        raise InvalidFieldError("path", f"{look.name}: {problem}", "cut the array out, as with jq")
    return "csv"


def _suffix(look: Look) -> str:
    name = PurePath(look.name)
    if look.container.kind == "gzip" and name.suffix.lower() == ".gz":
        name = name.with_suffix("")
    return name.suffix.lower()


def _is_object(line: str) -> bool:
    try:
        return type(decode(line)) is dict
    except UnfitError:
        return False


def _csv(look: Look) -> tuple[Dialect, tuple[str, ...], Cursor]:
    given = dict(look.declared.dialect)
    if _suffix(look) in {".tsv", ".tab"}:
        given.setdefault("delimiter", "\t")
    dialect, hint = sniff(look.sample, given, is_whole=look.is_whole)
    begin = Cursor(0, 0, 1 + hint.count("\n"), look.mark + size_of(hint, look.encoding))
    decoded = look.open_at(begin.offset)
    columns, behind = read_header(decoded, dialect, begin, look.declared.names, has_header=look.declared.header)
    return dialect, columns, behind if look.declared.header else begin


def _json(look: Look, chosen: str) -> tuple[None, tuple[str, ...], Cursor]:
    start = Cursor(0, 0, 1, look.mark)
    if chosen == "json":
        before, bracket, _ = look.sample.partition("[")
        if not bracket or before.strip(" \t\r\n"):
            raise InvalidFieldError("path", f"{look.name} does not begin with [", "give a JSON array, or say ndjson")
        start = Cursor(0, 0, 1 + before.count("\n"), look.mark + size_of(before + bracket, look.encoding))
    reader = row_reader(chosen, (), look.encoding, look.open_at, start)
    names = {name: None for row in take(reader, _SAMPLE_ROWS, 1_000_000) for name in row.values}
    return None, tuple(names), start
