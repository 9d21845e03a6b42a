"""The views that follow the log, by name."""

from __future__ import annotations

from typing import Final

from . import counters, failures, recovery, schedule, security, versions
from .view import View

VIEWS: Final[dict[str, View]] = {
    module.VIEW.name: module.VIEW for module in (counters, versions, recovery, security, failures, schedule)
}
