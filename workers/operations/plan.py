"""How a source is read: all that was declared, told or sniffed, frozen by value so that a resume reads the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...domain.errors import InvalidFieldError
from .csv_dialect import Dialect
from .digest import Digest
from .rows import Cursor


@dataclass(frozen=True, slots=True)
class Plan:
    """A JSON object of a few hundred bytes and the column names; kept as the result of a job's first step."""

    path: str  #: absolute
    container: str  #: plain, gzip or zip
    member: str  #: of a zip file
    format: str  #: csv, ndjson or json
    encoding: str
    dialect: Dialect | None  #: of CSV
    columns: tuple[str, ...]  #: of CSV all there are; else those of the first rows
    digest: Digest
    total: int | None  #: unpacked bytes, where the container knows; a cursor's offset ends there
    start: Cursor  #: the first row, behind byte order mark, header and opening bracket

    @property
    def is_fixed(self) -> bool:
        """Whether every row has exactly these columns."""
        return self.format == "csv"

    def to_state(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self) | {"columns": list(self.columns)}

    @classmethod
    def from_state(cls, state: Any) -> Plan:
        """Read what ``to_state`` wrote."""
        try:
            given = dict(state)
            given["columns"] = tuple(given["columns"])
            given["digest"] = Digest.from_state(given["digest"])
            given["start"] = Cursor.from_state(given["start"])
            if given["dialect"] is not None:
                given["dialect"] = Dialect.declared(given["dialect"])
            return cls(**given)
        except (KeyError, TypeError, ValueError):
            raise InvalidFieldError("plan", "no plan of a source", "give what Plan.to_state answered") from None
