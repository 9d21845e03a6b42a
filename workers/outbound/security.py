"""What is said about a refused destination to those who watch for attacks (SSR-07, SSR-11)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .errors import DestinationRefusedError

#: Told each refusal; must not fail, and its failure changes nothing.
Report = Callable[["DestinationRefusedError"], None]

logger = logging.getLogger("joblog.security")
DETAIL_LIMIT: Final = 500


def detail_of(refusal: DestinationRefusedError) -> str:
    """One line of at most 500 characters, without control characters."""
    line = "".join(each if each.isprintable() else " " for each in refusal.detail)
    return line if len(line) <= DETAIL_LIMIT else line[: DETAIL_LIMIT - 1] + "…"


def log_refusal(refusal: DestinationRefusedError) -> None:
    """A line in the security log."""
    logger.warning("outbound request refused (%s): %s", refusal.category, detail_of(refusal))
