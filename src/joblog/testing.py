"""For the tests of an operation's author; see ``joblog.workers.testing``."""

from .workers.testing import Crash, CrashReport, Lab, ManualClock, kill9

__all__ = ["Crash", "CrashReport", "Lab", "ManualClock", "kill9"]
