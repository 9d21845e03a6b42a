"""One job with very many units: what a unit costs, what the writer's memory does, and how long the job takes to load."""

import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from joblog import JobLog, JobSpec, LeasePolicy

SAMPLES: Final = 20  #: the run is cut into so many parts of the same length
EVIDENCE: Final = {"count": 500, "digest": "a" * 32}
LEASES: Final = LeasePolicy(timedelta(hours=4), timedelta(minutes=10))
PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Streamed:
    """What a stream of units took."""

    units: int
    group: int
    seconds: float
    micros: tuple[
        float, ...
    ]  #: CPU per unit, of this process and of its server's, part by part: other programs don't count
    resident: tuple[int, ...]  #: bytes of this process' memory at the end of each part
    load_ms: float  #: best of some loads of the job after its last unit
    events: int

    @property
    def growth(self) -> float:
        """Cost of a unit in the last quarter against the first: the best part of each, for others make the cost uneven."""
        quarter = len(self.micros) // 4
        return min(self.micros[-quarter:]) / min(self.micros[1 : quarter + 1])

    @property
    def leak(self) -> float:
        """Bytes of memory that each unit leaves behind: the slope over the later half of the run."""
        half = self.resident[len(self.resident) // 2 :]
        each = self.units / len(self.resident)
        return statistics.linear_regression([i * each for i in range(len(half))], half).slope


def resident() -> int:
    """Bytes of memory that this process has now."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(statm.read_text(encoding="ascii").split()[1]) * PAGE_SIZE


def cpu(log: JobLog) -> float:
    """Seconds of CPU that this process has used, and on PostgreSQL the server process of its appends, if it is here."""
    used = time.process_time()
    if log.store.dialect == "postgresql":
        pinned = log.store._append_pin  # type: ignore[attr-defined]
        pinned.open()
        schedule = Path(f"/proc/{pinned.driver.info.backend_pid}/schedstat")
        if schedule.exists():
            used += int(schedule.read_text(encoding="ascii").split()[0]) / 1e9
    return used


def stream(url: str, *, units: int, group: int, tell: Callable[[str], None] = lambda _: None) -> Streamed:
    """Complete *units* units of one job, *group* in each append, then load the job."""
    with JobLog.open(url, leases=LEASES) as log:
        tag = log.ids.next()
        job_id = log.submit(JobSpec("scale", {}, key=tag, queue=tag)).job_id
        (held,) = log.claim("scale", queues=[tag])
        micros: list[float] = []
        memory: list[int] = []
        part, done = units // SAMPLES, 0
        start = time.monotonic()
        while done < units:
            before, first = cpu(log), done
            while done < min(first + part, units):
                keys = range(done, min(done + group, units))
                held.complete_units([(f"rows-{n}", EVIDENCE) for n in keys], cursor={"row": keys[-1]})
                done = keys[-1] + 1
            micros.append((cpu(log) - before) / (done - first) * 1e6)
            memory.append(resident())
            tell(f"{done:,} units, {micros[-1]:.1f} µs of CPU each, {memory[-1] / 1e6:.1f} MB")
        seconds = time.monotonic() - start
        job = log.job(job_id)
        if (job.done, job.sequence) != (units, units):
            raise AssertionError(f"{job.done} units done, checkpoint at {job.sequence}, of {units}")
        return Streamed(
            units, group, seconds, tuple(micros), tuple(memory), load_ms(log, held.job_id), log.store.head()
        )


def load_ms(log: JobLog, job_id: object, tries: int = 20) -> float:
    """Milliseconds that loading the job takes, at best: what it costs, not what else the machine does."""
    took: list[float] = []
    for _ in range(tries):
        before = time.monotonic()
        log.job(job_id)  # type: ignore[arg-type]
        took.append((time.monotonic() - before) * 1000)
    return min(took)
