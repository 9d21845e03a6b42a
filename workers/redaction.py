"""The second line of defence: no known secret value in a line of the log of a process, and nothing that no file can keep."""

from __future__ import annotations

import logging
from typing import Final

from ..domain.withheld import scrub

_PLAIN: Final = logging.Formatter()


class Redaction(logging.Filter):
    """Replaces known values in the message and in the traceback of each record; for a logger or a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let it pass, scrubbed; a lone surrogate in a user's text would end the line in an encoding error."""
        record.msg, record.args = _kept(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = _PLAIN.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = _kept(record.exc_text)
            record.exc_info = None  # a handler would format it anew, or hand the objects on
        return True


def _kept(text: str) -> str:
    return scrub(text).encode(errors="backslashreplace").decode()
