"""Power cuts for the log on SQLite: the real product is recorded by strace, then thousands of crash images are made.

One recording is the list of everything a process did to the folder: writes, truncations, syncs, names made and removed,
and in the same order the lines of the journal, which say what was acknowledged.  An image is what a disk may hold after
a cut at some point of that list: all that was synced, and of the rest each write kept, dropped or torn at 512 bytes,
each name made or not.  The shared-memory file is memory and never on the disk.  The oracle then judges the image against
what had been acknowledged by then.

Needs ``strace`` 5.3 or newer and the right to trace one's own children.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from joblog import JobLog
from joblog.eventstore import sqlite_setup
from joblog.workers.commands import log as log_module
from tests.faults import rig
from tests.faults.finish import finish
from tests.faults.journal import Journal, Story, lines_of, story_of
from tests.faults.oracle import Oracle
from tests.faults.reader import SqliteReader
from tests.faults.rig import Report
from tests.faults.workload import RunIds, Script, SharedClock, watch

CAMPAIGN: Final = "power-cuts"
SECTOR: Final = 512
STEPS: Final = 45  #: commands in one recording
HEALED: Final = 60  #: every so many images a healthy worker ends all jobs of one
WEIGHTS: Final[dict[str, float]] = {"checkpoint": 8, "outbox": 0, "rebuild": 0.5, "queue": 0.5, "submit": 10}
CALLS: Final = (
    "openat,pwrite64,write,fdatasync,fsync,ftruncate,unlink,rename,renameat,renameat2,fallocate,pwritev,pwritev2"
)
NAMES: Final = ("log.db", "log.db-wal", "log.db-journal", "journal")
NEEDS: Final = "the power rig records with strace: install it (apt-get install strace), and let it trace its children"


class UnknownToRigError(Exception):
    """The product did to its files what this rig can't play back; its verdict would be worth nothing."""


class NotAvailableError(Exception):
    """This machine lacks what the rig needs."""


# -- recording -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that was done, in the order in which the calls ended."""

    kind: str  #: write, truncate, sync, create, unlink, sync-names, tell
    name: str = ""
    offset: int = 0  #: of a write; the new size of a truncation
    data: bytes = b""
    begun: int = 0  #: a sync covers the operations before this one: those that had ended when it began


@dataclass
class Recording:
    ops: list[Op]
    url: str

    @property
    def counts(self) -> Counter[str]:
        return Counter(op.kind for op in self.ops)


def record(folder: Path, seed: int, *, steps: int = STEPS, synchronous: str = "FULL") -> Recording:
    """Run the product under strace once.

    Raises:
        NotAvailableError: no strace, or it may not trace.
    """
    strace = shutil.which("strace")
    if strace is None:
        raise NotAvailableError(NEEDS)
    trace = folder.with_name(f"{folder.name}.trace")
    product = [sys.executable, "-m", "tests.faults.power_rig", str(folder), str(seed), str(steps), synchronous]
    flags = ["-f", "-y", "-xx", "-s", "1000000", "--seccomp-bpf", "-e", f"trace={CALLS}", "-e", "signal=none"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(rig.ROOT / "src"), str(rig.ROOT)))}
    command = [strace, *flags, "-o", str(trace), *product]
    done = subprocess.run(command, cwd=rig.ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        if "ptrace" in done.stderr:
            raise NotAvailableError(f"{NEEDS}: {done.stderr.strip()}")
        raise RuntimeError(f"the recorded process ended with {done.returncode}: {done.stderr}")
    ops = list(parse(trace.read_text(encoding="ascii"), folder))
    trace.unlink()
    return Recording(ops, f"sqlite:///{folder / 'log.db'}")


_LINE: Final = re.compile(r"^(\d+) +(.*)$")
_RESUMED: Final = re.compile(r"^<\.\.\. \w+ resumed>(.*)$")
_CALL: Final = re.compile(r"^(\w+)\((.*)\) += (-?\d+)(.*)$", re.DOTALL)
_UNFINISHED: Final = " <unfinished ...>"


def _text(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def parse(trace: str, folder: Path) -> Iterator[Op]:
    """The operations on the files of *folder*."""
    place = f"{folder}".encode()
    begun: dict[str, tuple[int, str]] = {}
    count = 0
    for line in trace.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, text = match.groups()
        start = count
        if text.endswith(_UNFINISHED):
            begun[thread] = (count, text.removesuffix(_UNFINISHED))
            continue
        if (resumed := _RESUMED.match(text)) is not None:
            start, head = begun.pop(thread)
            text = head + resumed.group(1)
        call = _CALL.match(text)
        if call is None or int(call.group(3)) < 0:
            continue
        for op in _ops(call.group(1), call.group(2), call.group(4), place, start):
            yield op
            count += 1


_FD: Final = re.compile(r"^\d+<((?:\\x[0-9a-f]{2})*)>(?:\(deleted\))?(?:, )?(.*)$", re.DOTALL)
_DATA: Final = re.compile(r'^"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?, (\d+)(?:, (\d+))?$', re.DOTALL)
_OPENED: Final = re.compile(r"^<((?:\\x[0-9a-f]{2})*)>")
_QUOTED: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def _ops(call: str, arguments: str, answer: str, place: bytes, start: int) -> Iterator[Op]:
    """What one finished call did to our files."""
    if call == "openat":
        opened = _OPENED.match(answer)
        if opened and "O_CREAT" in arguments and (name := _name(_text(opened.group(1)), place)):
            yield Op("create", name)
        return
    if call in {"unlink", "rename", "renameat", "renameat2"}:
        names = [_name(_text(quoted), place) for quoted in _QUOTED.findall(arguments)]
        if call != "unlink" and any(names):
            raise UnknownToRigError(f"the product renames {names}: teach the rig")
        if names and names[0]:
            yield Op("unlink", names[0])
        return
    described = _FD.match(arguments)
    if described is None:
        return
    path, rest = _text(described.group(1)), described.group(2)
    if path == place and call in {"fsync", "fdatasync"}:
        yield Op("sync-names", begun=start)
    elif name := _name(path, place):
        yield _file_op(call, name, rest, start)


def _file_op(call: str, name: str, rest: str, start: int) -> Op:
    if call in {"fdatasync", "fsync"}:
        return Op("sync", name, begun=start)
    if call == "ftruncate":
        return Op("truncate", name, int(rest))
    data = _DATA.match(rest)
    if data is None or data.group(2):
        raise UnknownToRigError(f"{call} on {name}: teach the rig, or raise the length of strings")
    if name == "journal":
        return Op("tell", data=_text(data.group(1)))
    if call != "pwrite64":
        raise UnknownToRigError(f"{call} on {name}: teach the rig")
    return Op("write", name, int(data.group(4)), _text(data.group(1)))


def _name(path: bytes, place: bytes) -> str:
    name = path.removeprefix(place + b"/").decode() if path.startswith(place + b"/") else ""
    return name if name in NAMES else ""


# -- the disk ------------------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """A file: what is on the disk for sure, and what may be."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, Op]] = field(default_factory=list)


def _apply(content: bytearray, kind: str, offset: int, data: bytes) -> None:
    if kind == "truncate":
        content.extend(b"\0" * (offset - len(content)))
        del content[offset:]
        return
    content.extend(b"\0" * (offset + len(data) - len(content)))
    content[offset : offset + len(data)] = data


class Disk:
    """Replays a recording; ``image`` is what a cut now may leave."""

    def __init__(self) -> None:
        self._now: dict[str, Node] = {}
        self._durable: dict[str, Node] = {}
        self._pending: list[tuple[int, str, Node | None]] = []
        self._count = 0
        self.told: list[bytes] = []

    def take(self, op: Op) -> None:
        index, self._count = self._count, self._count + 1
        if op.kind == "tell":
            self.told.append(op.data)
        elif op.kind == "create":
            if op.name not in self._now and op.name != "journal":
                self._now[op.name] = Node()
                self._pending.append((index, op.name, self._now[op.name]))
        elif op.kind == "unlink":
            self._now.pop(op.name, None)
            self._pending.append((index, op.name, None))
        elif op.kind == "sync-names":
            self._settle_names(op.begun)
        elif op.kind == "sync":
            self._settle(self._now[op.name], op.begun)
        else:
            self._now[op.name].pending.append((index, op))

    def _settle(self, node: Node, begun: int) -> None:
        for index, op in node.pending:
            if index < begun:
                _apply(node.durable, op.kind, op.offset, op.data)
        node.pending = [entry for entry in node.pending if entry[0] >= begun]

    def _settle_names(self, begun: int) -> None:
        for index, name, node in self._pending:
            if index < begun:
                self._link(self._durable, name, node)
        self._pending = [entry for entry in self._pending if entry[0] >= begun]

    @staticmethod
    def _link(names: dict[str, Node], name: str, node: Node | None) -> None:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node

    def image(self, rng: random.Random, fired: Counter[str]) -> dict[str, bytes]:
        """Everything synced, and of the rest what luck keeps: nothing, all, or some of it, torn or whole."""
        luck = rng.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        names = dict(self._durable)
        for _, name, node in self._pending:
            if rng.random() < luck:
                self._link(names, name, node)
            else:
                fired["name-lost"] += 1
        return {name: self._content(node, luck, rng, fired) for name, node in names.items()}

    @staticmethod
    def _content(node: Node, luck: float, rng: random.Random, fired: Counter[str]) -> bytes:
        content = bytearray(node.durable)
        for _, op in node.pending:
            if rng.random() >= luck:
                fired["write-dropped"] += 1
            elif op.kind == "write" and rng.random() < 0.3:
                fired["write-torn"] += 1
                for at in range(0, len(op.data), SECTOR):
                    if rng.random() < 0.5:
                        _apply(content, "write", op.offset + at, op.data[at : at + SECTOR])
            else:
                fired["write-kept"] += 1
                _apply(content, op.kind, op.offset, op.data)
        return bytes(content)


# -- images --------------------------------------------------------------------------------------------------------------


def cuts(recording: Recording, count: int, rng: random.Random) -> list[int]:
    """Where the power goes: anywhere, and as often right behind an acknowledgement."""
    acks = [index + 1 for index, op in enumerate(recording.ops) if op.kind == "tell" and b'"k":"acked"' in op.data]
    first = next(index for index, op in enumerate(recording.ops) if op.kind == "write")
    anywhere = [rng.randrange(first, len(recording.ops) + 1) for _ in range(count - count // 2)]
    return sorted(anywhere + [rng.choice(acks) for _ in range(count // 2)])


def judge(place: Path, image: dict[str, bytes], told: Sequence[bytes], *, heal: bool) -> list[Any]:
    """Put an image on a disk, open it as any process would, and ask the oracle."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in image.items():
        (place / name).write_bytes(content)
    story = lines_of(told)
    if "log.db" not in image:
        return ["S1: the whole database is gone"] if story.acked else []
    with SqliteReader(place / "log.db", writable=True) as reader:
        found: list[Any] = [*Oracle().check(reader, story, full=True)]
    if heal and not found:
        (place / "journal").write_bytes(b"".join(told))
        clock = SharedClock()
        clock.advance(timedelta(days=1))

        def open_log(url: str, **ports: Any) -> JobLog:
            return JobLog.open(url, clock=clock, random=random.Random(1), **ports)

        found += finish(f"sqlite:///{place / 'log.db'}", place / "journal", open_log, clock=clock, run="healer")
    return found


def run(report: Report, *, images: int, recordings: int = 0, synchronous: str = "FULL", stop: bool = True) -> Report:
    """Judge *images* images of some recordings; stops at the first bad one unless told otherwise."""
    recordings = recordings or max(images // 250, 1)
    report.again = f"python -m tests.faults.campaign --only {CAMPAIGN} --seed {report.seed} --kills {images}"
    rng = random.Random(report.seed)
    with rig.scratch() as folder, rig.timed(report):
        for number in range(recordings):
            recording = record(folder / f"recording-{number}", report.seed + number, synchronous=synchronous)
            report.counts += recording.counts
            share = images // recordings + (number < images % recordings)
            _judge_all(report, recording, share, rng, folder / "image", stop=stop)
            if stop and report.failed:
                break
    return report


def _judge_all(
    report: Report, recording: Recording, count: int, rng: random.Random, place: Path, *, stop: bool
) -> None:
    disk, taken = Disk(), 0
    for cut in cuts(recording, count, rng):
        for op in recording.ops[taken:cut]:
            disk.take(op)
        taken = cut
        report.runs += 1
        image = disk.image(rng, report.fired)
        report.fired["cut"] += 1
        found = judge(place, image, disk.told, heal=report.runs % HEALED == 0)
        if found:
            kept = rig.keep(place, f"{CAMPAIGN}-{report.seed}-{report.runs}") if stop else "nothing"
            report.fail(f"image {report.runs}, cut {cut} of {len(recording.ops)} ({report.again}; kept: {kept})", found)
            if stop:
                return


# -- the process that is recorded ----------------------------------------------------------------------------------------


def product(folder: Path, seed: int, steps: int, synchronous: str) -> Story:
    """Work on a log for a while, closing and opening it in between."""
    if synchronous != "FULL":
        vars(sqlite_setup)["_PRAGMAS"]["synchronous"] = {"NORMAL": 1, "OFF": 0}[synchronous]
    vars(log_module)["SNAPSHOT_EVERY"] = 8
    folder.mkdir()
    journal, clock, rng = Journal(folder / "journal", f"p{seed}"), SharedClock(), random.Random(seed)
    ids = RunIds(f"p{seed}")
    for part in range(3):
        with JobLog.open(f"sqlite:///{folder / 'log.db'}", clock=clock, random=random.Random(1), ids=ids) as log:
            watch(log, journal)
            script = Script(log, journal, rng, clock=clock, keys=8 + 6 * part, weights=WEIGHTS)
            script.run(steps // 3, must="checkpoint")
        clock.advance(timedelta(seconds=40))
    return story_of(folder / "journal")


if __name__ == "__main__":
    product(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
