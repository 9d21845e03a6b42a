"""Refusals of the way out, below the tree of ``domain/errors.py``."""

from __future__ import annotations

from ...domain.errors import InputError


class DestinationRefusedError(InputError):
    """A destination that requests may not go to; *category* is for everybody, *detail* for the security log alone.

    The text names neither host nor address: a job's author must not learn from it what is inside (SSR-07).
    """

    code = "destination-refused"

    def __init__(self, category: str, detail: str) -> None:
        super().__init__("url", f"not an allowed destination ({category})", "see the security log, or the allow list")
        self.category, self.detail = category, detail
