"""How things are drawn on a terminal: colours and tables."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

import click

from ..text import STATUS

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_drawn(stream: TextIO) -> bool:
    """Whether *stream* is a terminal that can redraw a line."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def painted(text: str, colour: str) -> str:
    """*text* in *colour* where standard output is a terminal that wants it."""
    if not is_drawn(sys.stdout) or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=colour)


def status_text(status: str, *, warnings: bool = False, width: int = 9) -> str:
    """A status with its glyph, padded to the widest."""
    glyph, colour = STATUS.get(status, ("?", "white"))
    return painted(f"{glyph}{'!' if warnings else ' '}{status:<{width}}", colour)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, each column as wide as its widest cell; the head is there without rows too."""
    plain = [[click.unstyle(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in plain) for column in range(len(head))]
    lines: list[str] = []
    for row, bare in zip((head, *rows), plain, strict=True):
        cells = [cell + " " * (width - len(text)) for cell, text, width in zip(row, bare, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines
