"""Processes that measure two sides in turn: rounds alternate, so that a noisy machine is unfair to both alike."""

from __future__ import annotations

import multiprocessing as mp
import os
import statistics
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

Side = "Callable[..., tuple[int, float]]"  #: runs for some seconds; answers how much it did, and in how many seconds


class Figure(NamedTuple):
    """What the rounds of one comparison gave; rates are per second, ratios are ours / bare within one round."""

    name: str
    ratio: float
    lowest: float
    highest: float
    ours: float
    bare: float
    rounds: int
    load: float

    @property
    def is_slower(self) -> bool:
        """Below half of the bare limit."""
        return self.ratio < 0.5


@dataclass
class Crew:
    """Processes that have each opened both sides."""

    pipes: Sequence[Connection]

    def rate(self, side: str, *arguments: Any) -> float:
        """Run *side* in all processes at once; the sum of their rates."""
        for pipe in self.pipes:
            pipe.send((side, arguments))
        answers = [pipe.recv() for pipe in self.pipes]
        if faults := [answer for answer in answers if isinstance(answer, str)]:
            raise RuntimeError(faults[0])
        return sum(done / seconds for done, seconds in answers)

    def compare(self, name: str, ours: str, bare: str, arguments: Sequence[Any], rounds: int) -> Figure:
        """Alternate the two sides; the order within a round changes with each round."""
        ratios: list[float] = []
        rates: dict[str, list[float]] = {ours: [], bare: []}
        for turn in range(rounds):
            for side in (ours, bare) if turn % 2 == 0 else (bare, ours):
                rates[side].append(self.rate(side, *arguments))
            ratios.append(rates[ours][-1] / rates[bare][-1])
        middle = statistics.median
        figures = (middle(ratios), min(ratios), max(ratios), middle(rates[ours]), middle(rates[bare]))
        return Figure(name, *figures, rounds, os.getloadavg()[0])

    def measure(self, name: str, side: str, arguments: Sequence[Any], rounds: int) -> Figure:
        """One side alone: no bare figure, and the spread of its rates against their median."""
        rates = [self.rate(side, *arguments) for _ in range(rounds)]
        middle = statistics.median(rates)
        spread = (float("nan"), min(rates) / middle, max(rates) / middle)
        return Figure(name, *spread, middle, float("nan"), rounds, os.getloadavg()[0])


def _serve(pipe: Connection, make: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    sides = make(*arguments)
    pipe.send("ready")
    while (order := pipe.recv()) is not None:
        side, given = order
        try:
            pipe.send(sides[side](*given))
        except Exception as error:  # noqa: BLE001 - told to the process that asked, which raises
            pipe.send(f"{side}{given}: {type(error).__name__}: {error}")


@contextmanager
def crew(make: Callable[..., dict[str, Any]], *arguments: Any, processes: int = 1) -> Iterator[Crew]:
    """Start *processes* that each call *make* for their sides, by name."""
    context = mp.get_context("spawn")
    pipes: list[Connection] = []
    started: list[Any] = []
    try:
        for _ in range(processes):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, make, arguments), daemon=True)
            process.start()
            there.close()
            pipes.append(here)
            started.append(process)
        for pipe in pipes:
            pipe.recv()
        yield Crew(pipes)
    finally:
        for pipe in pipes:
            try:
                pipe.send(None)
            except OSError:
                continue
        for process in started:
            process.join(10)
            if process.is_alive():
                process.terminate()
