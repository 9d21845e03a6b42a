"""Where things are said: data on stdout, talk on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from .settings import current


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


def say(text: str) -> None:
    """Talk: not data, so on stderr, and not under ``--quiet``."""
    if not current().quiet:
        click.echo(text, err=True)
