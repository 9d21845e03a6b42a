"""Opening the log for a command, saying who commands, and finding the user's jobs."""

from __future__ import annotations

import os
import pwd
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from ...domain.errors import (
    InvalidFieldError,
    JobNotFoundError,
    SchemaMissingError,
    StoreUnavailableError,
    UnsafeStoreError,
)
from .local_only import why
from .output import say
from .settings import current

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    import sqlalchemy as sa

    from ...domain.job import Actor
    from ...workers.commands.log import JobLog
    from ...workers.registry import Jobs


def database() -> sa.URL:
    """The database's URL.  Nothing of it is ever repeated before it was understood: it may hold a password."""
    import sqlalchemy as sa

    if current().server:
        reason = why(click.get_current_context().command_path.partition(" ")[2])
        raise click.UsageError(f"this asks the database itself{reason and f' ({reason})'}: give --db")
    try:
        url = sa.make_url(current().db)
    except sa.exc.ArgumentError:
        raise InvalidFieldError("database", "no URL", "give sqlite:///path or postgresql://…") from None
    if url.get_backend_name() not in {"sqlite", "postgresql", "postgres"}:
        raise InvalidFieldError(
            "database", f"{url.get_backend_name()!r} is not supported", "give sqlite:///path or postgresql://…"
        )
    if url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}:
        raise InvalidFieldError("database", "SQLite in memory is no durable log", "give sqlite:///path")
    return url


def shown(url: sa.URL) -> str:
    """A database's URL without its password, which may also stand among its parameters."""
    hidden = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=hidden).render_as_string(hide_password=True)


def file_of(url: sa.URL) -> Path | None:
    """The database's file; None where it is a server."""
    if url.get_backend_name() != "sqlite" or url.database is None:
        return None
    return Path(url.database)


_CAN_ASK: Final = os.access in os.supports_effective_ids


def check_place(file: Path | None) -> None:
    """Refuse a place that this account may not write to, with the way out; SQLite would only say that it can't open.

    Raises:
        UnsafeStoreError: the folder or the file is not ours to write.
    """
    if file is None:
        return
    folder = file.absolute().parent
    for path, needed in ((folder, os.W_OK | os.X_OK), (file, os.R_OK | os.W_OK)):
        try:
            path.stat()
            problem = "" if os.access(path, needed, effective_ids=_CAN_ASK) else f"can't be written to by {user()}"
        except FileNotFoundError:
            continue
        except OSError as error:
            problem = f"can't be reached by {user()} ({error.strerror})"
        if problem:
            text = f"{path} {problem}: a log needs its file, and the folder for its -wal and locks"
            raise UnsafeStoreError(f"{text}; change the owner, or give another --db")


@contextmanager
def open_log(*, create: bool = False, reading: bool = False) -> Iterator[JobLog]:
    """The open log.  Only commands that start something make a new one; looking into the wrong folder must not.

    *reading*: to look only, which a standby can answer too; nothing can be written through it.
    """
    url = database()
    file = file_of(url)
    check_place(file)
    if file is not None and not create and not file.exists():
        raise SchemaMissingError(f"there is no job log at {file.absolute()}; run `joblog init`, or give another --db")
    is_new = file is not None and not file.exists()
    log = _opened(url, create=create, reading=reading)
    if is_new:
        say(f"made {shown(url)}")
    try:
        yield log
    finally:
        log.close()


def _opened(url: sa.URL, *, create: bool, reading: bool) -> JobLog:
    import sqlalchemy as sa

    from ...eventstore.opening import open_store
    from ...workers.commands.log import JobLog

    try:
        archives = Path(current().archives) if current().archives else None
        text = url.render_as_string(hide_password=False)
        return JobLog(open_store(text, create=create, read_only=reading, archives=archives))
    except (OSError, sa.exc.DBAPIError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error.orig).splitlines()[0]
        raise StoreUnavailableError(f"{shown(url)} can't be opened: {reason}") from error


def user() -> str:
    """The account that runs this command, as the history will name it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a number that has no name
        return f"uid {os.geteuid()}"


def actor(*, request_id: str = "", reason: str = "") -> Actor:
    """Who commands, why, and under which request id."""
    from ...domain.job import Actor

    return Actor(user(), request_id=request_id, text=reason)


def user_jobs() -> Jobs:
    """The jobs that this process can run: the built-in ones and those of ``--app``.

    Raises:
        InvalidFieldError: ``--app`` names no registry.
    """
    from ...workers import registry
    from ...workers.operations import builtin

    app = current().app
    if not app:
        return builtin()
    module_name, _, attribute = app.partition(":")
    if not module_name or not attribute:
        raise InvalidFieldError("app", f"{app!r} is no module:attribute", "give for example --app myjobs:jobs")
    found = getattr(_imported(module_name), attribute, None)
    if not isinstance(found, registry.Jobs):
        raise InvalidFieldError("app", f"{app!r} is no joblog.Jobs", "name the module and its registry of jobs")
    return builtin().merged(found)


def _imported(name: str) -> Any:
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does; the installed script does not
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # their module is there; something that it imports is not
        problem = f"there is no module {name!r}"
        raise InvalidFieldError("app", problem, "run where it can be imported, or set PYTHONPATH") from None


DIGITS: Final = 32  #: of an id
_LEAST: Final = 4  #: digits that may stand for an id
_ID_CHARACTERS: Final = frozenset("0123456789abcdef-")


def is_id(text: str) -> bool:
    """Whether it may be an id or its beginning, and not a cursor."""
    return bool(text) and not set(text.lower()) - _ID_CHARACTERS


def digits_of(text: str) -> str:
    """An id, or its beginning, as digits.

    Raises:
        InvalidFieldError: neither.
    """
    digits = text.replace("-", "").lower()
    if set(digits) - set("0123456789abcdef") or len(digits) > DIGITS:
        raise InvalidFieldError("id", f"{text!r} is no job id", "see `joblog list`")
    if len(digits) < _LEAST:
        raise InvalidFieldError("id", f"{text!r} is too short", "give at least four digits")
    return digits


def find_job(log: JobLog, text: str) -> UUID:
    """A job's id, given whole or by its first four or more digits.

    Raises:
        JobNotFoundError: no such job.
        InvalidFieldError: not an id, or the beginning of several.
    """
    from uuid import UUID

    from ...eventstore import inspection

    digits = digits_of(text)
    if len(digits) == DIGITS:
        return UUID(digits)
    found = inspection.jobs_beginning(log.store, digits, limit=3)
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidFieldError("id", f"{text!r} begins {len(found)} or more ids", "give more digits")
    raise JobNotFoundError(cast("UUID", text))
