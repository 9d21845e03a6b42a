"""What bounds one request: its time, its bytes, its headers (BND-01…09)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...domain.errors import InvalidFieldError
from .guard import REDIRECTS_LIMIT

_LONGEST_MS: Final = 300_000
_MOST_BYTES: Final = 1024 * 1024 * 1024
LINE_LIMIT: Final = 8190  # of one header, bytes
HEADERS_LIMIT: Final = 100  # header lines of an answer
EXCERPT_LIMIT: Final = 200  # of an error answer's body, characters


@dataclass(frozen=True, slots=True)
class Limits:
    """*total_ms* covers look-up, connect, redirects, headers and body; *body* counts bytes, sent and unpacked alike."""

    total_ms: int = 30_000
    connect_ms: int = 10_000
    body: int = 2 * 1024 * 1024
    redirects: int = 0

    def __post_init__(self) -> None:
        """Refuse a bound that is none."""
        for name, lowest, highest in (
            ("total_ms", 1, _LONGEST_MS),
            ("connect_ms", 1, _LONGEST_MS),
            ("body", 0, _MOST_BYTES),
            ("redirects", 0, REDIRECTS_LIMIT),
        ):
            value = getattr(self, name)
            if type(value) is not int or not lowest <= value <= highest:
                problem = f"{value!r} is no whole number from {lowest} to {highest:,}"
                raise InvalidFieldError(f"limits.{name}", problem, "every request is bounded")
