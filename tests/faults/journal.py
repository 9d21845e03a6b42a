"""What the callers of a log were told, kept outside the database under test.

One line a fact, each written by one system call to a file opened for appending: several processes may write, and any
of them may be killed in between.  ``Story`` reads the lines back; a torn one is a fact that was never told.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import orjson

from joblog.domain.errors import JobLogError, UnknownOutcomeError
from joblog.eventstore.append import Append, Stored

ACKED: Final = "acked"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"


def digest(topic: str, state: bytes) -> str:
    """Name the bytes of one event as stored."""
    return sha256(topic.encode() + b"\0" + bytes(state)).hexdigest()[:20]


class Journal:
    """Writes facts; each belongs to one *run*."""

    def __init__(self, path: Path, run: str = "") -> None:
        self.path, self.run = path, run
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, kind: str, **facts: Any) -> None:
        """A line begins and ends with a line feed, so that a torn one spoils no other."""
        os.write(self._fd, b"\n" + orjson.dumps({"k": kind, "run": self.run, **facts}) + b"\n")

    def close(self) -> None:
        os.close(self._fd)

    # -- what a caller does and is told ------------------------------------------------------------------------------

    def submit(self, job_id: UUID) -> None:
        self.write("submit", job=job_id.hex)

    def accepted(self, job_id: UUID) -> None:
        self.write("accepted", job=job_id.hex)

    def sent(self, append: Append) -> None:
        """An append is about to be sent: its ids, and a digest of each event's bytes."""
        digests = [digest(topic, state) for _, topic, state in append.events]
        self.write("sent", id=append.event_id, first=append.expected + 1, stream=append.stream_id.hex, digests=digests)

    def answered(self, append: Append, answer: Stored | BaseException) -> None:
        """The caller was told; whatever is neither a position nor a doubt is a definite no."""
        told: dict[str, Any] = {"id": append.event_id, "first": append.expected + 1}
        if isinstance(answer, Stored):
            self.write(ACKED, **told, position=answer.position)
        elif isinstance(answer, UnknownOutcomeError):
            self.write(UNKNOWN, **told)
        else:
            code = answer.code if isinstance(answer, JobLogError) else type(answer).__name__
            self.write(REFUSED, **told, code=code)

    def effect(self, job_id: UUID, unit: str) -> None:
        """The body of a unit ran."""
        self.write("effect", job=job_id.hex, unit=unit)

    def settled(self, job_id: UUID, units: Iterable[str], how: str) -> None:
        """Its holder was told what became of the units' completion."""
        self.write("settled", job=job_id.hex, units=list(units), how=how)

    def fired(self, fault: str) -> None:
        """A fault is about to happen here, or just has."""
        self.write("fired", fault=fault)


@dataclass(slots=True)
class Sending:
    """One append as it was sent, and all it was answered."""

    event_id: str
    first: int  #: version of its first event
    stream: UUID
    digests: list[str]
    answers: list[str] = field(default_factory=list)
    position: int = 0
    code: str = ""

    def holds(self, version: int, digest_: str) -> bool:
        """Whether this is the event that was sent at *version*."""
        index = version - self.first
        return 0 <= index < len(self.digests) and self.digests[index] == digest_


class Story:
    """All facts of a journal, or of its first lines."""

    def __init__(self) -> None:
        self.sendings: dict[str, list[Sending]] = {}  #: by the id of the first event
        self.acked: list[Sending] = []  #: in the order in which callers were told
        self.submitted: set[UUID] = set()
        self.accepted: list[UUID] = []
        self.effects: Counter[tuple[UUID, str]] = Counter()
        self.told_done: Counter[tuple[UUID, str]] = Counter()
        self.effects_after: list[tuple[UUID, str]] = []  #: of units whose completion had been acknowledged
        self.fired: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.torn = 0
        self._offset = 0

    def follow(self, path: Path) -> "Story":
        """Take what was added to *path*; a last line that is not ended may still be."""
        with path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        return self.take(whole.split(b"\n"))

    def take(self, lines: Iterable[bytes]) -> "Story":
        for line in lines:
            if not line:
                continue
            try:
                fact = orjson.loads(line)
            except orjson.JSONDecodeError:
                self.torn += 1
                continue
            self.counts[fact["k"]] += 1
            getattr(self, f"_{fact['k']}", self._other)(fact)
        return self

    def sending(self, event_id: str, version: int, digest_: str) -> Sending | None:
        """The append that brought this event."""
        base = f"{event_id.rpartition('.')[0]}.0"
        for sending in self.sendings.get(base, ()):
            if sending.holds(version, digest_):
                return sending
        return None

    def answers(self) -> Counter[str]:
        """How often callers were told what."""
        return Counter({kind: self.counts[kind] for kind in (ACKED, REFUSED, UNKNOWN)})

    def _other(self, fact: dict[str, Any]) -> None:
        pass

    def _submit(self, fact: dict[str, Any]) -> None:
        self.submitted.add(UUID(fact["job"]))

    def _accepted(self, fact: dict[str, Any]) -> None:
        self.accepted.append(UUID(fact["job"]))

    def _sent(self, fact: dict[str, Any]) -> None:
        known = self.sendings.setdefault(fact["id"], [])
        if not any(s.first == fact["first"] and s.digests == fact["digests"] for s in known):
            known.append(Sending(fact["id"], fact["first"], UUID(fact["stream"]), fact["digests"]))

    def _answered(self, fact: dict[str, Any]) -> Sending:
        matching = [s for s in self.sendings[fact["id"]] if s.first == fact["first"]]
        matching[-1].answers.append(fact["k"])
        return matching[-1]

    def _acked(self, fact: dict[str, Any]) -> None:
        sending = self._answered(fact)
        sending.position = fact["position"]
        self.acked.append(sending)

    def _refused(self, fact: dict[str, Any]) -> None:
        self._answered(fact).code = fact["code"]

    def _unknown(self, fact: dict[str, Any]) -> None:
        self._answered(fact)

    def _effect(self, fact: dict[str, Any]) -> None:
        unit = (UUID(fact["job"]), fact["unit"])
        self.effects[unit] += 1
        if self.told_done[unit]:
            self.effects_after.append(unit)

    def _settled(self, fact: dict[str, Any]) -> None:
        if fact["how"] == ACKED:
            for unit in fact["units"]:
                self.told_done[UUID(fact["job"]), unit] += 1

    def _fired(self, fact: dict[str, Any]) -> None:
        self.fired[fact["fault"]] += 1


def story_of(path: Path) -> Story:
    return Story().follow(path)


def lines_of(facts: Sequence[bytes]) -> Story:
    """The story that these journal lines tell, for a journal cut short."""
    return Story().take(line for fact in facts for line in fact.split(b"\n"))
