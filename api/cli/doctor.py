"""`doctor`: whether this log is safe, and whether the work goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...domain.errors import JobLogError
from ..text import clean
from .exits import Exit
from .output import answer
from .session import database, file_of, open_log, shown
from .settings import current, shared_options
from .terminal import painted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

    from .checks import Check

_LOOKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✕", "red")}


@click.command(name="doctor")
@shared_options()
def doctor_command() -> Exit:
    """Check the database, the log and the workers."""
    url = database()
    found = list(_checks(url))
    lines = [line for check in found for line in _lines(check)]
    healthy = all(check.level != "fail" for check in found)
    document = {"database": shown(url), "ok": healthy, "checks": [check._asdict() for check in found]}
    answer(document, *lines)
    return Exit.DONE if healthy else Exit.UNHEALTHY


def _lines(check: Check) -> Iterator[str]:
    glyph, colour = _LOOKS[check.level]
    yield f"{painted(glyph, colour)} {check.name:<12} {clean(check.text)}"
    if check.hint:
        yield f"  {'':<12} → {clean(check.hint)}"


def _checks(url: sa.URL) -> Iterator[Check]:
    from . import checks

    yield _of_settings(url)
    file = file_of(url)
    if file is not None:
        yield from checks.of_folder(file)
        if not file.exists():
            hint = "run `joblog init`, or give another --db"
            yield checks.Check("database", "fail", f"there is no job log at {file.absolute()}", hint)
            return
        lock = checks.of_writer_lock(file)
        yield lock
        if lock.level == "fail":
            return  # opening the log could wait for it
    try:
        yield from _of_log()
    except JobLogError as error:
        yield checks.Check("database", "fail", f"{error} [{error.code}]")


def _of_log() -> Iterator[Check]:
    from . import checks, evidence

    with open_log() as log:
        yield from checks.of_database(log)
        yield checks.of_clock(log)
        yield checks.of_leases(log)
        yield from checks.of_lag(log)
        yield checks.of_workers(log)
        yield from checks.of_projections(log)
        yield from evidence.of_evidence(log)


def _of_settings(url: sa.URL) -> Check:
    from .checks import Check

    settings = current()
    text = f"{shown(url)} (from {settings.db_origin})"
    if url.password and settings.db_origin == "--db":
        hint = "every user of this machine sees it in the list of processes; put the URL into JOBLOG_DB"
        return Check("settings", "warn", f"{text} with a password on the command line", hint)
    return Check("settings", "ok", text)
