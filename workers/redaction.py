"""The second line of defence: no known secret value in a line of the log of a process."""

from __future__ import annotations

import logging
from typing import Final

from ..domain.withheld import scrub

_PLAIN: Final = logging.Formatter()


class Redaction(logging.Filter):
    """Replaces known values in the message and in the traceback of each record; for a logger or a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let it pass, scrubbed."""
        record.msg, record.args = scrub(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = _PLAIN.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = scrub(record.exc_text)
            record.exc_info = None  # a handler would format it anew, or hand the objects on
        return True
