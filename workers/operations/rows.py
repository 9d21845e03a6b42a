"""What a source is read as: rows in batches, a cursor between two batches, and what may be wrong with a row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ...domain import storable
from ...domain.errors import InvalidFieldError

FIELD_LIMIT: Final = 1024 * 1024  # one value: characters
RECORD_LIMIT: Final = 8 * 1024 * 1024  # one row as it stands in the file: characters
BATCH_LIMIT: Final = 8 * 1024 * 1024  # a batch is closed by the row that reaches it: characters


class Code(StrEnum):
    """What can be wrong with a row; for programs, never changed."""

    FIELD_COUNT = "field-count"  # more or fewer fields than the header
    BAD_QUOTING = "bad-quoting"  # text after a closing quote, or a line break outside of quotes
    UNCLOSED_QUOTE = "unclosed-quote"  # the quote is still open at the end of the file
    OVER_LONG = "over-long"  # a value over FIELD_LIMIT, or a record over RECORD_LIMIT
    UNDECODABLE = "undecodable"  # bytes that are no text in the encoding
    UNSTORABLE = "unstorable"  # NUL or a lone surrogate, which some database can't keep
    INVALID_JSON = "invalid-json"  # this line or element only
    BROKEN_JSON = "broken-json"  # the array itself; where its next element begins is unknown
    NOT_AN_OBJECT = "not-an-object"
    TOO_DEEP = "too-deep"  # nested over DEPTH_LIMIT
    UNKNOWN_COLUMN = "unknown-column"  # the target has no such column
    BAD_VALUE = "bad-value"  # not of the column's type
    OUT_OF_RANGE = "out-of-range"  # an integer over 64 bits, a number over a double
    MISSING_KEY = "missing-key"  # a key column without a value
    REFUSED_BY_TARGET = "refused-by-target"  # a constraint of the table


#: After these nothing more of the file can be read: a row that is skipped would take the rest along unseen.
ENDING: Final = frozenset({Code.UNCLOSED_QUOTE, Code.BROKEN_JSON})


class RowProblem(NamedTuple):
    """Why a row can't be imported.  The text never repeats the row's data: it may go into the log."""

    line: int
    column: str
    code: Code
    text: str

    @property
    def ends_reading(self) -> bool:
        """Whether this row can't be skipped, because what follows it can't be told apart from it."""
        return self.code in ENDING


class Row(NamedTuple):
    """One row of the source; a row with a problem has no values, but its number: it counts."""

    number: int  #: 1 is the first after the header
    line: int  #: where it begins in the (unpacked) file; 1 is the first
    values: dict[str, Any]
    problem: RowProblem | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place between two batches; everything needed to read on from there, and nothing about what was read."""

    batch: int  #: index of the next batch
    row: int  #: rows before it
    line: int  #: line at which the next record begins
    offset: int  #: its first byte, in the unpacked file
    ended: bool = False  #: nothing can be read any more

    def to_state(self) -> dict[str, Any]:
        """A small JSON object, as kept in a checkpoint."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Any) -> Cursor:
        """Read what ``to_state`` wrote."""
        names = ("batch", "row", "line", "offset")
        given: dict[str, Any] = {name: state.get(name) for name in names} if isinstance(state, dict) else {}
        if not given or not all(type(count) is int and count >= 0 for count in given.values()):
            raise InvalidFieldError("cursor", "no cursor of a source", "give what Cursor.to_state answered")
        return cls(**given, ended=bool(state.get("ended")))


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are imported as one unit.

    Its boundaries follow from the file's content and the batch size alone, so *index* and *first_row* are
    stable parts of a unit key.
    """

    index: int  #: 0 is the first
    first_row: int  #: number of its first row
    rows: list[Row]
    cursor: Cursor  #: where the next batch begins

    @property
    def problems(self) -> list[RowProblem]:
        """What is wrong with its rows, in their order."""
        return [row.problem for row in self.rows if row.problem]


class UnfitError(Exception):
    """A row that can't be taken; whoever knows its place makes a ``RowProblem`` of it."""

    def __init__(self, code: Code, text: str, column: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.column = code, text, column

    def refuse(self, number: int, line: int) -> Row:
        """The row, refused."""
        column = storable.text(self.column, limit=storable.NAME_LIMIT)
        return Row(number, line, {}, RowProblem(line, column, self.code, self.text))
