"""What an export says of itself; written last, so a file without one is not finished."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import orjson

from ...domain.errors import DamagedExportError
from ...eventstore.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

FORMAT: Final = "joblog-export/1"


@dataclass(frozen=True, slots=True)
class Manifest:
    """An export: which events of which log, and what they come to."""

    store_id: str
    epoch: int
    first: int
    last: int
    count: int
    root: str  #: of the log up to *last*
    before: list[str]  #: the hashes that the log before *first* comes down to
    sha256: str  #: of the unpacked lines
    bytes: int  #: of the unpacked lines
    file: str
    file_sha256: str
    file_bytes: int
    chunks: list[str] = field(default_factory=list)  #: SHA-256 of each chunk of lines
    heads: list[str] = field(default_factory=list)  #: signed heads of sizes from *first* - 1 to *last*
    format: str = FORMAT

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read it.

        Raises:
            DamagedExportError: there is none, or it is not whole.
        """
        try:
            found: dict[str, Any] = orjson.loads(path.read_bytes())
            made = cls(**found)
            UUID(made.store_id)
            [bytes.fromhex(text) for text in (made.root, *made.before, made.sha256, *made.chunks)]
        except (OSError, TypeError, ValueError) as error:
            raise DamagedExportError(f"{path.name}: no whole manifest ({error}); export again") from error
        if made.format != FORMAT:
            raise DamagedExportError(f"{path.name}: the format {made.format!r} is not known here; use a newer joblog")
        return made

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        write_whole(path, self.encoded())

    def encoded(self) -> str:
        """As its file has it."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def manifest_of(file: Path) -> Path:
    """Where the manifest of a file is."""
    return file.with_name(file.name + ".manifest.json")
