"""How far something has come: one line that is redrawn on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import click

from ..text import counted, span
from .settings import current
from .terminal import is_drawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..measure import Measure

_DRAW_SECONDS: Final = 0.1
_PLAIN_SECONDS: Final = 5.0
_WINDOW_SECONDS: Final = 15.0  #: the rate is that of this span
_BAR: Final = 24
_LONGEST_LEFT: Final = 365 * 86400.0  #: nobody believes a longer forecast
_LEAST_SECONDS: Final = 0.5  #: no rate before so much time has passed


class Rate:
    """Steps per second over the last seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, done: int) -> float:
        """Take a count; returns the rate, 0 while it is not known."""
        now = self._clock()
        self._seen.append((now, done))
        while now - self._seen[0][0] > _WINDOW_SECONDS and len(self._seen) > 2:  # noqa: PLR2004 - two make a span
            self._seen.popleft()
        since, before = self._seen[0]
        return (done - before) / (now - since) if now - since >= _LEAST_SECONDS else 0.0


class Progress:
    """Talk on stderr; nothing under ``--quiet``."""

    def __init__(self, label: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._clock = label, clock
        self._rate = Rate(clock)
        self._drawn = is_drawn(sys.stderr)
        self._quiet = current().quiet
        self._next = 0.0 if self._drawn else clock() + _PLAIN_SECONDS / 5
        self._open = False  #: a drawn line waits for its end

    def update(self, measure: Measure, note: str = "") -> None:
        """Say it, if it is time again."""
        rate, now = self._rate.add(measure.done), self._clock()
        if self._quiet or now < self._next:
            return
        self._next = now + (_DRAW_SECONDS if self._drawn else _PLAIN_SECONDS)
        text = line(self._label, measure, rate, note, bar=self._drawn)
        if self._drawn:
            width = shutil.get_terminal_size().columns
            click.echo(f"\r{text[: width - 1]}\x1b[K", nl=False, err=True)
            self._open = True
        else:
            click.echo(text, err=True)

    def end(self) -> None:
        """Leave the line, so that others can write."""
        if self._open:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._open = False


def line(label: str, measure: Measure, rate: float, note: str, *, bar: bool) -> str:
    """Label, bar, done/total, share, rate and the time that is left."""
    done, total, noun, is_estimate = measure
    parts = [label]
    if total:
        share = min(done / total, 1.0)
        full = int(share * _BAR)
        if bar:
            parts.append("█" * full + "░" * (_BAR - full))
        about = "~" if is_estimate else ""
        parts.append(f"{done:,}/{about}{total:,} {noun}s {share:4.0%}")
    else:
        parts.append(counted(done, noun))
    if rate:
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")  # noqa: PLR2004 - digits that matter
    if rate and total and 0 < (left := (total - done) / rate) < _LONGEST_LEFT:
        parts.append(f"{span(left)} left")
    if note:
        parts.append(note)
    return "  ".join(parts)
