"""Which commands work on the database itself, whatever is served, and why."""

from __future__ import annotations

from typing import Final

_VALUES: Final = "secret values, and the key that seals them, do not travel"
_COPIES: Final = "it copies the database, or puts one in its place"
_WORKS: Final = "it works in this process; a worker that only has a service speaks the protocol in docs/http.md"

#: Command, or group and command -> why a service is not asked.
WHY: Final[dict[str, str]] = {
    "demo": "it makes a log to play with",
    "init": "it makes the database, and there is no service before that",
    "up": _WORKS,
    "worker": _WORKS,
    "serve": "it is the service",
    "consumers rejoin": "it compares two logs, of which the service knows one",
    "webhooks": "it says where the log's content is sent to, which is for whoever has the log",
    "heads": "what is signed must be the log itself, and not what somebody says of it",
    "export": "a service gives the same bytes: GET /api/v1/export",
    "archive": "what it moves out of the log is for whoever has the log",
    "archives moved": "where a file lies is for the machine that reads it",
    "import-log": "it fills a log that nobody serves yet",
    "backup": _COPIES,
    "restore": _COPIES,
    "doctor": "it looks at files and clocks of this machine; the page's Admin screen has what can be said from afar",
    "migrate": "it changes the tables under the service",
    "projections run": _WORKS,
    "projections drop-old": "it empties what no service reads",
    "recovery import": "its files lie here, and how far they were read is kept with the log",
    "tokens": "the first one can't come from a service that asks for one; the page's Admin screen makes others",
    "credentials": _VALUES,
    "epoch": "it is raised where the log was put back",
}


def why(path: str) -> str:
    """Why the command of this path (without the program's name) does not ask a service; empty if it can."""
    return WHY.get(path) or WHY.get(path.partition(" ")[0], "")
