"""A pair of new, empty databases on the same disk and server: one for the log, one for the bare yardstick."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests import postgres_server as servers

from bench import limit

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("sqlite", "postgresql")


class Pair(NamedTuple):
    """Where both sides write; *delay* is in seconds, added to each commit."""

    kind: str
    ours: str
    bare: str
    delay: float = 0.0


@contextmanager
def pair(kind: str, delay: float = 0.0, folder: str | None = None) -> Iterator[Pair]:
    """New databases of *kind*; on PostgreSQL the delay is the server's own, before each commit's flush."""
    if kind == "sqlite":
        home = tempfile.mkdtemp(prefix="joblog-bench-", dir=folder)
        try:
            yield Pair(kind, f"sqlite:///{home}/ours.db", str(Path(home, "bare.db")), delay)
        finally:
            shutil.rmtree(home)
        return
    with ExitStack() as stack:
        ours, bare = (stack.enter_context(servers.fresh_database()) for _ in range(2))
        limit.prepare_postgres(bare)
        if delay:
            for url in (ours, bare):
                slow_down(url, delay)
        yield Pair(kind, ours, bare, delay)


def slow_down(url: str, delay: float) -> None:
    """Every later connection to this database waits before it flushes a commit, whoever else commits or not."""
    import psycopg

    name = url.rpartition("/")[2]
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as db:
        db.execute(f"ALTER DATABASE {name} SET commit_delay = {int(delay * 1_000_000)}".encode())
        db.execute(f"ALTER DATABASE {name} SET commit_siblings = 0".encode())
