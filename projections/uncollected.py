"""Batches that the cycle collector leaves alone."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def uncollected() -> Iterator[None]:
    """Without cyclic collections, for as long as one batch takes.

    Folding makes tens of thousands of objects and no cycle among them; the collector would walk through all that a
    batch keeps alive again and again, a third of the time.  It is the process' switch: whoever turned it off turns it
    on again, so a batch in another thread may go on with it, and no process stays without.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
