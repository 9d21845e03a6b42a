import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests import postgres_server as servers
from tests.postgres_server import fresh_database, private_server, server_url

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).parents[1]
HOLD = """
import sys
from tests.postgres_server import server_url
print(server_url(), flush=True)
sys.stdin.read()
"""


def ask(url: str, question: str) -> object:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        answer = connection.execute(question.encode())
        row = answer.fetchone() if answer.description else None
    return row[0] if row else None


def holder(home: Path | None = None) -> subprocess.Popen[str]:
    ours = {name: value for name, value in os.environ.items() if name not in {servers.HOME, servers.URL}}
    ours |= {servers.HOME: str(home)} if home else {}
    command = [sys.executable, "-c", HOLD]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=ours, stdin=pipe, stdout=pipe, text=True)


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_server_keeps_what_it_acknowledges(postgres_server: str) -> None:
    assert ask(postgres_server, "SHOW fsync") == "on"
    assert ask(postgres_server, "SHOW synchronous_commit") == "on"
    assert ask(postgres_server, "SHOW full_page_writes") == "on"


def test_a_fresh_database_is_empty_and_gone_afterwards(postgres_server: str) -> None:
    with fresh_database() as url:
        tables = ask(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    name = make_url(url).database

    assert tables == 0
    assert ask(postgres_server, f"SELECT count(*) FROM pg_database WHERE datname = '{name}'") == 0


def test_a_fresh_database_is_dropped_under_an_open_connection() -> None:
    with fresh_database() as url:
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        connection = psycopg.connect(plain)
    with connection, pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")


def test_another_server_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(servers.URL, "postgresql://me:secret@db.example/postgres")

    assert server_url() == "postgresql+psycopg://me:secret@db.example/postgres"


def test_processes_share_a_server_that_ends_with_the_last_of_them_even_if_killed() -> None:
    with holder() as first:
        url = url_of(first)
        home = Path(str(ask(url, "SHOW unix_socket_directories")))
        with holder(home) as second:
            same = url_of(second)
            first.kill()
            first.wait(30)
            still = ask(url, "SELECT 1")
            second.kill()

    servers._wait_until_gone(home)
    assert (same, still) == (url, 1)


def test_whoever_never_needed_the_server_leaves_it_to_the_others() -> None:
    home = Path(tempfile.mkdtemp())
    command = [sys.executable, "-c", "from tests import postgres_server as s; s.share(); s.release()"]
    ours = {name: value for name, value in os.environ.items() if name != servers.URL} | {servers.HOME: str(home)}
    with (home / "users").open("a", encoding="ascii") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        subprocess.run(command, cwd=ROOT, env=ours, check=True)
        kept = home.is_dir()
    subprocess.run(command, cwd=ROOT, env=ours, check=True)

    assert (kept, home.exists()) == (True, False)


def test_a_private_server_survives_a_crash_and_can_be_copied() -> None:
    with private_server() as server:
        ask(server.url(), "CREATE TABLE kept AS SELECT 1 AS one")
        server.stop("immediate")
        server.start()
        standby = server.start_standby()

        assert ask(server.url(), "SELECT one FROM kept") == 1
        assert ask(standby, "SELECT pg_is_in_recovery()") is True
        assert ask(standby, "SELECT one FROM kept") == 1
    assert not server.home.exists()
