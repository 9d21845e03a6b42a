"""`submit`: hand in a job, and see it through."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import click

from ...domain.errors import InvalidFieldError, TooLargeError
from ..instants import parse_instant, parse_span
from .door import NewJob, open_door
from .exits import Exit
from .output import answer
from .session import user_jobs
from .settings import current, shared_options

if TYPE_CHECKING:
    from .door import Document, Door

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
    args = read_args(args_text)
    if not current().server:
        user_jobs().spec(kind, args, **options)  # refused before a database is made
    with open_door(create=True) as door:
        due_at = parse_instant(at, "at", door.now()) if at else None
        document = door.submit(NewJob(kind, args, due_at=due_at, **options))
        is_new = document["created"]
        line = f"job {document['id']} {'submitted' if is_new else 'is there already: the same key, the same job'}"
        if not wait:
            answer(document, line)
            return Exit.DONE
        if not current().as_json:
            click.echo(line)
        return _seen_through(door, document, limit)


def _seen_through(door: Door, document: Document, limit: float | None) -> Exit:
    from .local import Local

    if not isinstance(door, Local):
        from .watching import see_through_from_afar

        return see_through_from_afar(door, document, limit=limit)
    from .waiting import see_through

    return see_through(door.log, UUID(document["id"]), user_jobs(), limit=limit, document=document)


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
