"""Processes that measure two sides in turn: rounds alternate, so that a noisy machine is unfair to both alike."""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

Side = "Callable[..., tuple[int, float]]"  #: runs for some seconds; answers how much it did, and in how many seconds


class Figure(NamedTuple):
    """What the rounds of one comparison gave.

    Rates are per second, ratios are ours / bare within one round.  Costs are microseconds of CPU for each, of the
    processes that measure and of the database's that serve them: they tell more than rates where others use the machine.
    """

    name: str
    ratio: float
    lowest: float
    highest: float
    ours: float
    bare: float
    our_cost: float
    bare_cost: float
    rounds: int
    load: float

    @property
    def is_slower(self) -> bool:
        """Below half of the bare limit."""
        return self.ratio < 0.5


class Rate(NamedTuple):
    """How fast all processes together were in one round, and what one cost."""

    per_second: float
    micros: float


@dataclass
class Crew:
    """Processes that have each opened both sides."""

    pipes: Sequence[Connection]

    def rate(self, side: str, *arguments: Any) -> Rate:
        """Run *side* in all processes at once; the sum of their rates."""
        for pipe in self.pipes:
            pipe.send((side, arguments))
        answers = [pipe.recv() for pipe in self.pipes]
        if faults := [answer for answer in answers if isinstance(answer, str)]:
            raise RuntimeError(faults[0])
        done = sum(answer[0] for answer in answers)
        return Rate(sum(n / seconds for n, seconds, _ in answers), sum(cpu for _, _, cpu in answers) / done * 1e6)

    def compare(self, name: str, ours: str, bare: str, arguments: Sequence[Any], rounds: int) -> Figure:
        """Alternate the two sides; the order within a round changes with each round."""
        rates: dict[str, list[Rate]] = {ours: [], bare: []}
        for turn in range(rounds):
            for side in (ours, bare) if turn % 2 == 0 else (bare, ours):
                rates[side].append(self.rate(side, *arguments))
        ratios = [one.per_second / other.per_second for one, other in zip(rates[ours], rates[bare], strict=True)]
        spread = (statistics.median(ratios), min(ratios), max(ratios))
        return Figure(name, *spread, *_speeds(rates[ours], rates[bare]), rounds, os.getloadavg()[0])

    def measure(self, name: str, side: str, arguments: Sequence[Any], rounds: int) -> Figure:
        """One side alone: no bare figure, and the spread of its rates against their median."""
        found = [self.rate(side, *arguments) for _ in range(rounds)]
        speeds = [rate.per_second for rate in found]
        middle = statistics.median(speeds)
        cost = statistics.median(rate.micros for rate in found)
        spread = (min(speeds) / middle, max(speeds) / middle)
        return Figure(name, NONE, *spread, middle, NONE, cost, NONE, rounds, os.getloadavg()[0])


NONE = float("nan")


def _speeds(ours: Sequence[Rate], bare: Sequence[Rate]) -> tuple[float, float, float, float]:
    """The middle of the rates, ours and bare, and of the costs."""
    speeds = [statistics.median(rate.per_second for rate in side) for side in (ours, bare)]
    costs = [statistics.median(rate.micros for rate in side) for side in (ours, bare)]
    return speeds[0], speeds[1], costs[0], costs[1]


def _serve(pipe: Connection, make: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    """Run one side after another, as told; ``server <side>`` is what the database's process for it has used of the CPU."""
    sides = make(*arguments)
    gc.freeze()  # as ``Worker.run`` does
    pipe.send("ready")
    while (order := pipe.recv()) is not None:
        side, given = order
        server = sides.get(f"server {side}", float)
        before = time.process_time() + server()
        try:
            done, seconds = sides[side](*given)
            pipe.send((done, seconds, time.process_time() + server() - before))
        except Exception as error:  # noqa: BLE001 - told to the process that asked, which raises
            pipe.send(f"{side}{given}: {type(error).__name__}: {error}")


def server_cpu(pid: int) -> float:
    """Seconds of CPU that a process on this machine has used; 0 if it runs elsewhere."""
    schedule = Path(f"/proc/{pid}/schedstat")
    return int(schedule.read_text(encoding="ascii").split()[0]) / 1e9 if schedule.exists() else 0.0


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
