"""How a CSV file is written: declared or sniffed once, and from then on a value of the plan."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from io import StringIO
from itertools import product
from typing import Any, Final

from ...domain.errors import InvalidFieldError

DELIMITERS: Final = (",", ";", "\t", "|")
_SAMPLE_RECORDS: Final = 200
_SEP_LINE = re.compile(r"sep=([^\w\"'\\\r\n])\r?\n")  # Excel's own hint
_QUOTED = re.compile(r"\s*([\"']).*\1\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The parameters of ``csv.reader``, by value."""

    delimiter: str = ","
    quotechar: str = '"'  #: empty: quotes mean nothing
    doublequote: bool = True
    escapechar: str = ""
    skipinitialspace: bool = False
    strict: bool = True  #: refuse text behind a closing quote, instead of gluing it on
    newline: str = "\n"  #: or a lone carriage return

    def __post_init__(self) -> None:
        """Refuse what ``csv`` can't read."""
        for field in fields(self):
            if type(getattr(self, field.name)) is not type(field.default):
                problem = f"{type(getattr(self, field.name)).__name__} is no {type(field.default).__name__}"
                raise InvalidFieldError(f"dialect.{field.name}", problem, "see csv.Dialect")
        if self.newline not in {"\n", "\r"}:
            raise InvalidFieldError("dialect.newline", "no line end", r"say \n (also for \r\n) or \r")
        marks = [mark for mark in (self.delimiter, self.quotechar, self.escapechar) if mark]
        if any(len(mark) != 1 or mark in "\r\n\0" for mark in marks) or len(set(marks)) < len(marks):
            raise InvalidFieldError("dialect", f"{marks} can't part fields", "give different single characters")
        if not self.delimiter:
            raise InvalidFieldError("dialect.delimiter", "empty", "give one character")

    @classmethod
    def declared(cls, given: Mapping[str, Any], field: str = "dialect") -> Dialect:
        """A dialect of which some parameters are given; the others are those of RFC 4180."""
        known = {each.name for each in fields(cls)}
        if unknown := sorted(set(given) - known):
            raise InvalidFieldError(f"{field}.{unknown[0]}", "no such parameter", f"there are {sorted(known)}")
        parameters: dict[str, Any] = {name: "" if value is None else value for name, value in given.items()}
        return cls(**parameters)

    def parameters(self) -> dict[str, Any]:
        """What ``csv.reader`` is called with."""
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quotechar or None,
            "quoting": csv.QUOTE_MINIMAL if self.quotechar else csv.QUOTE_NONE,
            "doublequote": self.doublequote,
            "escapechar": self.escapechar or None,
            "skipinitialspace": self.skipinitialspace,
            "strict": self.strict,
        }


def sniff(sample: str, given: Mapping[str, Any], *, is_whole: bool) -> tuple[Dialect, str]:
    """Choose the dialect whose records agree best on their number of fields, among those that *given* allows.

    Answers it with the line to be left out before the header (Excel's ``sep=;``), mostly empty.  The choice
    depends on *sample* alone.
    """
    start = Dialect.declared(given)
    hint = _SEP_LINE.match(sample)
    sample = sample[hint.end() :] if hint else sample
    if "newline" not in given and "\r" in sample and "\n" not in sample:
        start = replace(start, newline="\r")
    delimiters = (hint[1],) if hint else DELIMITERS
    found = max(
        _candidates(start, given, sample, delimiters),
        key=lambda dialect: _agreement(sample, dialect, is_whole=is_whole),
        default=start,
    )
    return found, hint[0] if hint else ""


def _candidates(
    start: Dialect, given: Mapping[str, Any], sample: str, delimiters: tuple[str, ...]
) -> Iterator[Dialect]:
    """Dialects to try, the likeliest first: of equals the first is taken."""
    quotes = ['"', "'"] if "'" in sample else ['"']
    escapes = ["", "\\"] if re.search(r"\\[\"']", sample) else [""]
    spaces = [False, True] if re.search(r"[,;\t|] +[\"']", sample) else [False]
    choices = {
        "delimiter": delimiters,
        "quotechar": quotes,
        "escapechar": escapes,
        "skipinitialspace": spaces,
    }
    open_choices = {name: tried for name, tried in choices.items() if name not in given}
    for tried in product(*open_choices.values()):
        parameters: dict[str, Any] = dict(zip(open_choices, tried, strict=True))
        if parameters.get("escapechar") and "doublequote" not in given:
            parameters["doublequote"] = False
        try:
            yield replace(start, **parameters)
        except InvalidFieldError:  # the quote tried is the escape given, or the like
            continue


def _agreement(sample: str, dialect: Dialect, *, is_whole: bool) -> tuple[float, int, int]:
    """The share of records with the commonest number of fields, that number, and how few fields look quoted still.

    One field to a record is no agreement: every delimiter that does not occur has that.
    """
    reader = csv.reader(StringIO(sample, newline=""), **(dialect.parameters() | {"strict": True}))
    counts: list[int] = []
    still_quoted = 0
    while len(counts) < _SAMPLE_RECORDS:
        try:
            record = next(reader)
        except StopIteration:
            break
        except csv.Error:
            counts.append(-1)
            continue
        if record:
            counts.append(len(record))
            still_quoted += sum(1 for field in record if _QUOTED.fullmatch(field))
    if len(counts) > 1 and not is_whole:
        counts.pop()  # cut off where the sample ends
    agreed = Counter(count for count in counts if count > 1).most_common(1)
    share, width = (agreed[0][1] / len(counts), agreed[0][0]) if agreed else (0.0, 0)
    return share, width, -still_quoted
