"""Operations that come with joblog."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..registry import Jobs


def builtin() -> Jobs:
    """A registry of everything that comes with joblog."""
    from ..registry import Jobs
    from . import chores, import_file, mail_send, webhooks

    jobs = Jobs()
    for one in (chores, import_file, mail_send, webhooks):
        one.register(jobs)
    return jobs
