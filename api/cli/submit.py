"""`submit`: hand in a job, and see it through."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError, TooLargeError, UnknownOutcomeError
from .exits import Exit
from .instants import parse_instant, parse_span
from .output import answer, say
from .session import open_log, user, user_jobs
from .settings import current, shared_options

if TYPE_CHECKING:
    from ...domain.spec import JobSpec
    from ...workers.commands.answers import Submitted
    from ...workers.commands.log import JobLog

_BYTES: Final = 1024 * 1024  #: read at most, of a file or of standard input
_WAY_OUT: Final = 'give JSON, such as --args \'{"source": "people.csv"}\', or @file, or - for standard input'


@click.command(name="submit")
@click.argument("kind")
@click.option("--args", "args_text", default="null", metavar="JSON|@FILE|-", help="What the job is to work on.")
@click.option("--key", default="", help="Idempotency key: the same key again is the same job.")
@click.option("--at", default="", metavar="WHEN", help="Not before: an ISO instant, or +5m from now.")
@click.option("--queue", metavar="NAME", help="Instead of the operation's own.")
@click.option("--priority", type=int, help="0 (first) to 9.")
@click.option("--tenant", default="default", show_default=True, help="Whose job it is.")
@click.option("--tag", "tags", multiple=True, help="A label; may be repeated.")
@click.option("--wait", is_flag=True, help="See it through; ends with 0, 10 (failed), 11 (cancelled) or 12 (parked).")
@click.option("--timeout", default="", metavar="SPAN", help="With --wait: give up after 90s, 5m, …, and end with 12.")
@shared_options()
def submit_command(*, kind: str, args_text: str, wait: bool, timeout: str, at: str, **options: Any) -> Exit:
    """Hand in a job; the same key again is the same job.

    KIND is a built-in operation, such as import.file, or one of --app.
    """
    limit = parse_span(timeout, "timeout").total_seconds() if timeout else None
    jobs = user_jobs()
    spec = jobs.spec(kind, read_args(args_text), owner=user(), **options)
    with open_log(create=True) as log:
        due_at = parse_instant(at, "at", log.now()) if at else None
        spec = replace(spec, key=spec.key or log.ids.next(), due_at=due_at)
        made = _submit(log, spec)
        document = {"id": str(made.job_id), "created": made.created, "position": made.position}
        document |= {"kind": spec.kind, "queue": spec.queue, "key": spec.key}
        line = f"job {made.job_id} {'submitted' if made.created else 'is there already: the same key, the same job'}"
        if not wait:
            answer(document, line)
            return Exit.DONE
        from .waiting import see_through

        if not current().as_json:
            click.echo(line)
        return see_through(log, made.job_id, jobs, limit=limit, document=document)


def _submit(log: JobLog, spec: JobSpec) -> Submitted:
    try:
        return log.submit(spec)
    except UnknownOutcomeError:
        say(f"it may or may not be in the log; the same command with --key {spec.key} finds out and is safe")
        raise


def read_args(text: str) -> Any:
    """Arguments as JSON: given, in a file, or on standard input.  Never repeated in an error: they may hold secrets."""
    try:
        if text == "-":
            text = sys.stdin.read(_BYTES + 1)
        elif text.startswith("@"):
            with Path(text[1:]).open(encoding="utf-8") as file:
                text = file.read(_BYTES + 1)
    except OSError as error:
        raise InvalidFieldError("args", f"{text[1:]} can't be read: {error.strerror}", _WAY_OUT) from None
    except UnicodeDecodeError:
        raise InvalidFieldError("args", "not UTF-8", _WAY_OUT) from None
    if len(text) > _BYTES:
        raise TooLargeError("args", "over a megabyte", "keep the data in a file and give its path")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidFieldError("args", f"no JSON ({place})", _WAY_OUT) from None
    except (RecursionError, ValueError):  # nested without end, or a number of thousands of digits
        raise TooLargeError("args", "nested too deeply, or a number too long", "flatten it") from None
