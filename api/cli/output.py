"""Where things are said: data on stdout, talk on stderr."""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from .settings import current

if TYPE_CHECKING:
    from collections.abc import Iterable

_TOGETHER: Final = 200


def emit(document: Any) -> None:
    """One JSON document on stdout: on one line for programs, indented for a terminal."""
    click.echo(encoded(document, indent=2 if sys.stdout.isatty() else None))


def encoded(document: Any, *, indent: int | None = None) -> str:
    """As JSON; letters of every language stay readable."""
    return json.dumps(document, ensure_ascii=False, indent=indent)


def answer(document: Any, *lines: str) -> None:
    """The result of a command: the document under ``--json``, else the lines for people."""
    if current().as_json:
        emit(document)
    else:
        for line in lines:
            click.echo(line)


def stream(parts: Iterable[str], *, between: str = "\n") -> None:
    """Many parts on stdout, some hundred at a time."""
    rest, is_first = iter(parts), True
    while some := list(islice(rest, _TOGETHER)):
        click.echo(("" if is_first else between) + between.join(some), nl=False)
        is_first = False
    click.echo()


def say(text: str) -> None:
    """Talk: not data, so on stderr, and not under ``--quiet``."""
    if not current().quiet:
        click.echo(text, err=True)
