"""Clocks that only a test moves: of a process, and of a PostgreSQL server."""

from datetime import UTC, datetime, timedelta

import psycopg
from sqlalchemy.engine import make_url

START = datetime(2030, 1, 1, tzinfo=UTC)
_STOPPED = (
    "CREATE TABLE test_clock (micros bigint NOT NULL)",
    "INSERT INTO test_clock SELECT extract(epoch FROM timestamptz '2030-01-01 00:00:00Z')::bigint * 1000000",
    "CREATE OR REPLACE FUNCTION joblog_now() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT micros FROM test_clock'",
)


class MovedClock:
    """The port of time, stopped at ``START``."""

    def __init__(self) -> None:
        self._wall = START
        self._micros = 1_000_000_000
        self._boot = 1

    def now(self) -> datetime:
        return self._wall

    def monotonic(self) -> float:
        return self._micros / 1_000_000

    def boottime(self) -> float:
        return self._micros / 1_000_000

    def boot_id(self) -> str:
        return f"boot-{self._boot}"

    def move(self, seconds: float = 0, *, micros: int = 0) -> None:
        step = timedelta(seconds=seconds, microseconds=micros)
        self._wall += step
        self._micros += step // timedelta(microseconds=1)

    def reboot(self) -> None:
        """Start the machine again: another boot, counted from zero; the wall clock goes on."""
        self._boot += 1
        self._micros = 1_000_000


class DatabaseClock(MovedClock):
    """The same, together with the clock of a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def move(self, seconds: float = 0, *, micros: int = 0) -> None:
        super().move(seconds, micros=micros)
        step = timedelta(seconds=seconds, microseconds=micros) // timedelta(microseconds=1)
        with connect(self._url) as connection:
            connection.execute("UPDATE test_clock SET micros = micros + %s", (step,))


def connect(url: str) -> psycopg.Connection:
    """Open a plain driver connection, as a stranger would."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True)


def stop_clock(url: str) -> None:
    """Make the database at *url* read its time from a table, from ``START`` on."""
    with connect(url) as connection:
        for statement in _STOPPED:
            connection.execute(statement.encode())
