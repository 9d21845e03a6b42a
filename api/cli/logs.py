"""What workers report while they work: a line each on stderr."""

from __future__ import annotations

import logging
import sys
from typing import Final

from ...workers.redaction import Redaction
from ..text import clean
from .settings import current
from .terminal import is_drawn

#: In front of each line where a progress line may stand: back to its beginning, and wipe it.
_WIPE: Final = "\r\x1b[K"


class _Formatter(logging.Formatter):
    """Messages hold what users and peers wrote: nothing of it may steer the terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging calls it so
        """Without control characters; a traceback behind it keeps its lines."""
        record.message = clean(record.message)
        return super().formatMessage(record)


def start_logging(level: int) -> None:
    """Report from *level* on; under ``--quiet`` only errors."""
    handler = logging.StreamHandler(sys.stderr)
    wipe = _WIPE if is_drawn(sys.stderr) else ""
    handler.setFormatter(_Formatter(f"{wipe}%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    handler.addFilter(Redaction())
    logging.basicConfig(level=logging.ERROR if current().quiet else level, handlers=[handler])
