"""`demo`: a real file, imported in small steps, to be watched and killed."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError
from .exits import Exit
from .output import say
from .serving import DEFAULT_PORT, serving_beside
from .session import open_log, user, user_jobs
from .settings import DEFAULT, current, shared_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from ...domain.spec import JobSpec
    from ...workers.commands.log import JobLog
    from ...workers.registry import Jobs

_DB: Final = "sqlite:///joblog-demo.db"
_TARGET: Final = "airports.db"
_ROWS: Final = 50  #: in a unit
_PACE: Final = 0.05  #: seconds between two units


@click.command(name="demo")
@click.option(
    "--pace", type=float, default=_PACE, show_default=True, help="Seconds between two units; 0 for full speed."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="Of the page, on loopback."
)
@click.option("--no-serve", is_flag=True, help="The import alone.")
@shared_options()
def demo_command(*, pace: float, port: int, no_serve: bool) -> Exit:
    """Import a real file, to watch and to kill.

    The airports of the PyPI package airportsdata go into airports.db, fifty rows a unit.  Kill it as often as you
    like and start it again: it goes on behind the last unit, and every row is there exactly once.  The page that it
    serves shows it happen; in a terminal it stays when the import has ended.
    """
    settings = current()
    if settings.db_origin == DEFAULT:
        settings.db = _DB
    jobs = user_jobs()
    args: dict[str, Any] = {"source": str(airports()), "target": f"sqlite:///{_TARGET}", "table": "airports"}
    args |= {"key": ["icao"], "batch": _ROWS, "pace": pace}
    with open_log(create=True) as log:
        job_id, is_new = unfinished_or_new(log, jobs, args)
        say(f"{'importing' if is_new else 'going on with'} job {job_id}")
        say(f"kill it with  kill -9 {os.getpid()}  and start it again: it goes on behind the last unit")
        with _page(log, jobs, None if no_serve else port):
            from .waiting import see_through

            end = see_through(log, job_id, jobs, always_work=True)
            _tell_history(log, job_id)
            if end is Exit.DONE:
                _tell_rows()
                if not no_serve and sys.stdout.isatty():
                    _stay()
    return end


@contextmanager
def _page(log: JobLog, jobs: Jobs, port: int | None) -> Iterator[None]:
    """The service, and the views that its screens show."""
    if port is None:
        yield
        return
    from ...workers.following import Following

    following = Following(log)
    following.start()
    try:
        with serving_beside(log, jobs, port):
            yield
    finally:
        following.stop()


def _stay() -> None:
    say("the page stays; end it with Ctrl-C")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def airports() -> Path:
    """The file inside the installed package, which is not imported for that."""
    spec = find_spec("airportsdata")
    if spec is None or spec.origin is None:
        raise InvalidFieldError("source", "the package airportsdata is not installed", "run: pip install airportsdata")
    return Path(spec.origin).with_name("airports.csv")


def unfinished_or_new(log: JobLog, jobs: Jobs, args: dict[str, Any]) -> tuple[UUID, bool]:
    """The demo that did not end, or the next one, under the keys demo-1, demo-2 and so on."""
    from ...domain.status import ENDED

    number = 1
    while True:
        spec: JobSpec = jobs.spec("import.file", args, key=f"demo-{number}", owner=user())
        row = log.store.job(spec.job_id)
        if row is None:
            return log.submit(spec).job_id, True
        if row["status"] not in ENDED:
            return spec.job_id, False
        number += 1


def _tell_history(log: JobLog, job_id: UUID) -> None:
    from .. import history

    click.echo()
    now = log.now()
    for turn in history.turns(log, job_id):
        click.echo(turn.line(now))


def _tell_rows() -> None:
    import sqlite3

    with sqlite3.connect(f"file:{_TARGET}?mode=ro", uri=True) as connection:
        rows, airports = connection.execute("SELECT count(*), count(DISTINCT icao) FROM airports").fetchone()
    connection.close()
    click.echo(f"\n{rows:,} rows of {airports:,} airports are in {_TARGET}: each exactly once")
