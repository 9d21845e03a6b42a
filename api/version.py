"""Which joblog this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as of


def version() -> str:
    """This joblog's version; empty where it is not installed."""
    try:
        return of("joblog")
    except PackageNotFoundError:
        return ""
