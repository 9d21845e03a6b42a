"""What the rigs share: children that are forked and reaped within a bound, a scratch folder, and the report."""

import os
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn, TypeVar

P = TypeVar("P")
ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "build" / "faults"  #: what a failed run leaves behind
LONGEST: Final = 3000  #: characters of a violation
HANGS_AFTER: Final = (
    180.0  #: seconds: a child that takes longer has met a deadlock (L8); on a busy machine it only waits
)


@dataclass
class Report:
    """What a campaign did and found."""

    campaign: str
    seed: int
    runs: int = 0
    fired: Counter[str] = field(default_factory=Counter)  #: faults by kind, each with a proof
    counts: Counter[str] = field(default_factory=Counter)  #: answers, positions, whatever shows that work was done
    violations: list[str] = field(default_factory=list)
    failed: int = 0  #: runs with a violation
    seconds: float = 0.0
    wanted: int = 0  #: faults, where it was told to stop before it had them
    again: str = ""  #: the command line that repeats it

    def fail(self, run: str, found: Sequence[object]) -> None:
        self.failed += 1
        self.violations += [f"{run}: {violation}"[:LONGEST] for violation in found]

    @property
    def passed(self) -> int:
        return max(self.runs - self.failed, 0)

    def line(self) -> str:
        kinds = " ".join(f"{kind}={count}" for kind, count in sorted(self.fired.items()))
        rate = self.runs / self.seconds if self.seconds else 0.0
        head = f"{self.campaign}: seed {self.seed}, {self.runs} runs, {self.fired.total()} faults"
        return f"{head}, {len(self.violations)} violations, {self.seconds:.1f} s, {rate:.1f}/s; {kinds}"


class Stop:
    """Whether this process was told to come to an end: what it has done by then is judged, and counts."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def is_asked(self) -> bool:
        return self._asked.is_set()

    def listen(self) -> None:
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_: object) -> None:
        self._asked.set()

    def forget(self) -> None:
        self._asked.clear()


STOP: Final = Stop()


@contextmanager
def timed(report: Report) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        report.seconds += time.monotonic() - start


@contextmanager
def scratch(prefix: str = "joblog-faults-") -> Iterator[Path]:
    """A folder in memory where there is one, and TMPDIR does not say where: a killed process leaves the page cache alone."""
    shm = Path("/dev/shm")  # noqa: S108 - made with mkdtemp below
    in_memory = "TMPDIR" not in os.environ and os.access(shm, os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=shm if in_memory else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lives(
    report: Report,
    make: Callable[[], AbstractContextManager[P]],
    live: Callable[[Report, P, random.Random, int], None],
    *,
    kills: int,
    life: int,
) -> Report:
    """One place after another, at most *life* kills in each, until *kills* have been proven or something was found."""
    chance = random.Random(report.seed)
    with timed(report):
        while report.fired.total() < kills and not report.failed and not STOP.is_asked():
            with make() as place:
                live(report, place, chance, min(life, kills - report.fired.total()))
    return report


def put_back(work: Callable[[], None]) -> None:
    """Do *work* here that is a child's: what it changes of the process is as before afterwards."""
    folder, handler = tempfile.tempdir, signal.getsignal(signal.SIGTERM)
    try:
        work()
    finally:
        tempfile.tempdir = folder
        signal.signal(signal.SIGTERM, handler)


def keep(folder: Path, name: str) -> Path:
    """Keep a copy of what a failed run left."""
    target = KEPT / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    return target


def fork(work: Callable[[], None], errors: Path) -> int:
    """Start *work* in a child, which never comes back here; what goes wrong in it is written to *errors*."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _run_child(work, errors)
    return pid


def _run_child(work: Callable[[], None], errors: Path) -> NoReturn:
    code = 3
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - a child must end here, whatever happened
        with suppress(OSError), errors.open("a", encoding="utf-8") as file:
            file.write(f"child {os.getpid()}: {traceback.format_exc(chain=False)}\n")
    finally:
        os._exit(code)


def ended(pid: int, seconds: float = HANGS_AFTER) -> bool:
    """Wait for the end of a child, at most *seconds*; it is not reaped yet."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def reap(pid: int, seconds: float = HANGS_AFTER) -> int:
    """How a child ended: its exit code, or minus the signal that killed it.

    Raises:
        TimeoutError: it hung, and was killed.
    """
    hung = not ended(pid, seconds)
    if hung:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if hung:
        raise TimeoutError(f"L8: a child did not end within {seconds} s")
    return os.waitstatus_to_exitcode(status)


def tell(count: int, before: Callable[[], None], number: signal.Signals) -> Callable[[], None]:
    """What a fail point runs to send its process a signal at the *count*-th time; *before* leaves the proof."""
    passed = 0

    def send() -> None:
        nonlocal passed
        passed += 1
        if passed == count:
            before()
            os.kill(os.getpid(), number)

    return send


def die(count: int, before: Callable[[], None]) -> Callable[[], None]:
    """As ``tell``, with SIGKILL."""
    return tell(count, before, signal.SIGKILL)
