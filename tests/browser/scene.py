"""An hour in the life of a log, the same in every run: something of everything that a screen can show."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.projections.feed.consumers import Consumer
from joblog.projections.feed.pages import Cursor
from joblog.projections.proof import tree
from joblog.projections.runner import Runner
from joblog.workers.commands import gating
from joblog.workers.commands.log import JobLog
from joblog.workers.outbound.errors import DestinationRefusedError
from joblog.workers.outbound.security import SecurityStream
from joblog.workers.testing import CountedIds, ManualClock, SeededRandom
from tests.api.http.client import a_token

NOON = datetime(2030, 3, 14, 12, 0, tzinfo=UTC)
ADA = Actor("ada", address="192.0.2.7", text="provider is down")
KINDS = (
    ("people.import", "bulk", {"staged": "people-2030-03"}),
    ("files.move", "bulk", {"from": "inbox", "to": "archive"}),
    ("hook.deliver", "hooks", {"destination": "shop"}),
    ("report.nightly", "default", {"day": "2030-03-13"}),
)


@dataclass
class Scene:
    """The log, and the jobs that screens are about."""

    log: JobLog
    clock: ManualClock
    jobs: dict[str, UUID] = field(default_factory=dict)

    def submit(self, name: str, kind: int, **more: object) -> UUID:
        what, queue, args = KINDS[kind]
        spec = JobSpec(what, {**args, "n": name}, key=name, queue=queue, owner="ada", **more)  # type: ignore[arg-type]
        self.jobs[name] = self.log.submit(spec).job_id
        return self.jobs[name]

    def hour(self) -> None:
        """Forty jobs that came and went, more of them towards the end."""
        for number in range(40):
            kind = number % 4
            self.submit(f"past-{number}", kind, total=3)
            [held] = self.log.claim(f"host-{1 + number % 3}", queues=[KINDS[kind][1]])
            for unit in range(3):
                held.complete_units([(f"unit:{unit}", {"rows": 500})], cursor={"row": 500 * (unit + 1)})
                self.clock.advance(5 + number % 7)
            if number % 9 == 4:
                text = f"line {10 + number}: not a date: 31.02.2030"
                held.fail(reason="bad-input", text=text, unit="unit:3")
            else:
                held.complete({"rows": 1500})
            self.clock.advance(max(110 - 3 * number, 5))

    def now(self) -> None:
        """What stands in each state, each with its reason."""
        log = self.log
        self.submit("lost", 0, total=12)
        [lost] = log.claim("host-9", queues=["bulk"])
        lost.complete_units([("rows:0", {"rows": 500}), ("rows:1", {"rows": 500})], cursor={"row": 1000})
        self.clock.advance(45)
        log.expire("host-1")  # took it back: host-9 went silent
        [held] = log.claim("host-1", queues=["bulk"])
        for unit in range(2, 7):
            held.complete_units([(f"rows:{unit}", {"rows": 500})], cursor={"row": 500 * unit}, tallies={"rows": 500})
            self.clock.advance(4)
        self.submit("retried", 2)
        [retried] = log.claim("host-2", queues=["hooks"])
        retried.attempt_unit("post")
        at = log.now() + timedelta(seconds=95)
        retried.schedule_retry(
            "post", category="provider", text="503 from the shop", origin="header", next_attempt_at=at
        )
        paused = self.submit("paused", 3)
        log.command("pause", paused, ADA)
        cancelled = self.submit("cancelled", 3)
        log.command("cancel", cancelled, Actor("ada", text="not needed any more"))
        for number in range(3):
            self.submit(f"queued-{number}", 1)
        self.submit("tomorrow", 3, due_at=log.now() + timedelta(hours=18))
        log.control_queue("mail", "pause", Actor("ada", text="server moves"))
        gating.close(log, "crm", Actor("ada", text="429 from the provider"), log.now() + timedelta(minutes=7))

    def around(self) -> None:
        """Views, consumers, refusals, tokens."""
        log = self.log
        with ThreadPoolExecutor(1) as thread:  # in the browser's thread a loop runs already
            thread.submit(asyncio.run, _refused(log)).result()
        Runner(log.store, log.mapper, "host-1").run()
        tree.build(log.store)
        head, epoch = log.store.head(), log.store.state().epoch
        Consumer.open(log.store, "billing").commit(Cursor(epoch, head - 3))
        Consumer.open(log.store, "audit").commit(Cursor(epoch, head - 180))
        a_token(log, "jobs:read", "feed:read", name="dashboard")
        a_token(log, "jobs:write", name="shop", tenant="red")


async def _refused(log: JobLog) -> None:
    """A request that the guard let go nowhere."""
    stream = SecurityStream(log, "ada")
    stream(DestinationRefusedError("host", "http://169.254.169.254/ is no public address"))
    await stream.settled()


@contextmanager
def made(folder: Path) -> Iterator[Scene]:
    """The scene in a log of its own."""
    clock = ManualClock(NOON - timedelta(hours=1))
    url = f"sqlite:///{folder / 'scene.db'}"
    with JobLog.open(url, clock=clock, random=SeededRandom(), ids=CountedIds()) as log:
        scene = Scene(log, clock)
        scene.hour()
        scene.now()
        scene.around()
        yield scene
