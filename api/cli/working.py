"""`worker` and `up`: a process that takes due jobs and runs them."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from ..instants import parse_span
from ..text import clean
from .exits import Exit
from .logs import start_logging
from .output import answer, say
from .serving import DEFAULT_PORT, serving_beside
from .session import database, open_log, shown, user_jobs
from .settings import shared_options
from .signals import Stopping

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...workers.commands.log import JobLog
    from ...workers.worker import Worker

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2
_FIRST_PAUSE: Final = 0.4  #: seconds, doubled up to the longest, until a database that is away is asked again
_LONGEST_PAUSE: Final = 5.0
_QUIET_LOOKS: Final = 2  #: so many looks in a row without work are idleness


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for add in reversed(
        [
            click.option(
                "--queue",
                "-q",
                "queues",
                multiple=True,
                metavar="NAME",
                help="Its queues, also as a,b.  [default: default]",
            ),
            click.option(
                "--slots", "-c", type=click.IntRange(1), default=10, show_default=True, help="Jobs at a time."
            ),
            click.option("--name", help="Its name in the history.  [default: host and process id]"),
            click.option(
                "--grace", default="25s", show_default=True, help="From the first stop until units are dropped."
            ),
            click.option(
                "--poll", default="5s", show_default=True, help="The longest time between two looks for due jobs."
            ),
            click.option(
                "--follow/--no-follow", default=True, help="Also keep the projections, where no other process does."
            ),
            click.option(
                "--recovery-file",
                "files",
                multiple=True,
                metavar="PATH",
                envvar="JOBLOG_RECOVERY_FILES",
                help="A recovery-events.jsonl to take in as it grows.",
            ),
            click.option("--until-idle", is_flag=True, help="End when nothing is due and nothing runs; for scripts."),
            shared_options(),
        ]
    ):
        function = add(function)
    return function


@click.command(name="worker")
@_options
def worker_command(**options: Any) -> Exit:
    """Run a worker until it is told to stop."""
    return _work(create=False, **options)


@click.command(name="up")
@_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Of the service, on loopback.",
)
@click.option("--no-serve", is_flag=True, help="The worker alone.")
def up_command(*, port: int, no_serve: bool, **options: Any) -> Exit:
    """Make the database ready, run a worker and serve, in one process."""
    return _work(create=True, port=None if no_serve or options["until_idle"] else port, **options)


def _work(
    *,
    create: bool,
    queues: tuple[str, ...],
    slots: int,
    name: str | None,
    grace: str,
    poll: str,
    follow: bool,
    files: tuple[str, ...],
    until_idle: bool,
    port: int | None = None,
) -> Exit:
    start_logging(logging.INFO)
    names = tuple(part for given in queues or ("default",) for part in given.split(",") if part)
    poll_seconds = parse_span(poll, "poll").total_seconds()
    grace_seconds = parse_span(grace, "grace").total_seconds()
    with Stopping(grace_seconds=grace_seconds) as stopping, ExitStack() as stack:
        from ...workers.following import Following
        from ...workers.worker import Worker, WorkerSettings

        settings = WorkerSettings(name, names, slots, poll_seconds=poll_seconds, grace_seconds=grace_seconds)
        jobs = user_jobs()
        log = _opened(stack, stopping, create=create, waits=not until_idle)
        if log is None:
            return stopping.end
        worker = Worker(log, jobs, settings)
        say(
            f"worker {clean(worker.name)} on {shown(database())}: queues {clean(', '.join(names))}, {slots} at a time\n"
            f"it runs {clean(', '.join(jobs.kinds()) or 'nothing')}; stop it with Ctrl-C"
        )
        following = Following(log, files=files) if follow else None
        if following is not None:
            following.start()
        try:
            with serving_beside(log, jobs, port):
                stopping.serves(worker)
                if until_idle:
                    threading.Thread(target=_stop_when_idle, args=(log, worker, names), daemon=True).start()
                worker.run()
        finally:
            if following is not None:
                following.stop()
    answer({"worker": worker.name, "stopped_by": stopping.received})
    return stopping.end


def _opened(stack: ExitStack, stopping: Stopping, *, create: bool, waits: bool) -> JobLog | None:
    """The log, as soon as its database is there; None if a signal came first.  A script is told at once instead."""
    from ...domain.errors import StoreBusyError, StoreUnavailableError
    from ...eventstore.clock import SystemRandom

    pause, chance, tick = _FIRST_PAUSE, SystemRandom(), threading.Event()
    while stopping.received is None:
        try:
            return stack.enter_context(open_log(create=create))
        except (StoreBusyError, StoreUnavailableError) as error:
            if not waits:
                raise
            logger.warning("waiting for the database: %s", error)
        seconds = pause * (0.5 + chance.random())  # many workers wait for the same one
        for _ in range(int(seconds / _LOOK_SECONDS) + 1):
            if stopping.received is None:
                tick.wait(_LOOK_SECONDS)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return None


def _stop_when_idle(log: JobLog, worker: Worker, queues: tuple[str, ...]) -> None:
    """Stop *worker* once its queues hold nothing that is due, and nothing of them runs anywhere."""
    from ...domain.errors import StoreError
    from ...eventstore import inspection

    quiet, tick = 0, threading.Event()
    while quiet < _QUIET_LOOKS:
        tick.wait(_LOOK_SECONDS)
        try:
            outlook = log.store.outlook(queues)
            running = inspection.leases_by_queue(log.store)
        except StoreError:  # the worker itself waits until the database is back
            quiet = 0
            continue
        due = outlook.next_due is not None and outlook.next_due <= 0
        busy = outlook.ready or due or outlook.outbox or any(queue in running for queue in queues)
        quiet = 0 if busy or not worker.alive else quiet + 1
    worker.stop()
