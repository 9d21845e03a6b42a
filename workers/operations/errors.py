"""Refusals of a source or a target, below the tree of ``domain/errors.py``.

RefusedError
└── SourceError             the file, as it is now, can't be read on
    ├── SourceMissingError
    ├── SourceChangedError
    └── SourceDamagedError
InputError
└── TargetRefusedError      the table, as it is, can't take this source
"""

from __future__ import annotations

from ...domain.errors import InputError, RefusedError


class SourceError(RefusedError):
    """A source file that can't be read (on) as it is now."""

    code = "source-error"

    def __init__(self, path: str, problem: str, way_out: str) -> None:
        super().__init__(f"{path}: {problem}; {way_out}")
        self.path, self.problem, self.way_out = path, problem, way_out


class SourceMissingError(SourceError):
    """The file, or the member of its archive, is not there or may not be opened."""

    code = "source-missing"


class SourceChangedError(SourceError):
    """The file has other content than the job was planned on; its cursors mean nothing there."""

    code = "source-changed"


class SourceDamagedError(SourceError):
    """Compressed data that can't be unpacked to its end."""

    code = "source-damaged"


class TargetRefusedError(InputError):
    """A table that can't take the source's rows: a column is missing, or the key is not unique there."""

    code = "target-refused"
