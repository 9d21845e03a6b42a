"""Whoever tails the log beside its writers misses nothing, on a standby too; a standby is read and never written to."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from joblog import JobLog, JobSpec
from joblog.domain.errors import StoreError, UnsafeStoreError
from joblog.domain.lease import Token
from joblog.eventstore.opening import open_store
from joblog.eventstore.store import LoggedEvent, Seen, SnapshotRow
from tests.conformance.builders import an_append
from tests.patience import until
from tests.postgres_server import private_server
from tests.scale import following

EVENTS = 20_000


class Cluster(NamedTuple):
    primary: str
    standby: str


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_server() as server:
        yield Cluster(server.url(), server.start_standby())


@pytest.mark.postgres
def test_readers_beside_writers_with_random_delays_miss_nothing_on_postgres(cluster: Cluster) -> None:
    readers = {"on the primary": cluster.primary, "on a standby": cluster.standby}

    found = following.campaign(cluster.primary, readers, writers=4, events=EVENTS)

    assert following.faults(found, EVENTS) == []


def test_a_reader_beside_writers_with_random_delays_misses_nothing_on_sqlite(sqlite_url: str) -> None:
    found = following.campaign(sqlite_url, {"beside": sqlite_url}, writers=3, events=EVENTS)

    assert following.faults(found, EVENTS) == []


def test_the_ledger_finds_gaps_repetitions_and_versions_out_of_order() -> None:
    stream = uuid4()
    ledger = following.Ledger()

    ledger.read([LoggedEvent(position, stream, version, "t", b"") for position, version in ((1, 1), (3, 2), (3, 4))])

    assert ledger.faults[:2] == ["3 follows 1", "3 follows 3"]
    assert ledger.faults[2].startswith("3: version 4 follows 2")


WRITES: dict[str, Callable[[Any], Any]] = {
    "append": lambda store: store.append([an_append()], 0, Seen(1, 0)),
    "turn": lambda store: store.append([an_append()], 0, Seen(1, 0), side=True),
    "renew": lambda store: store.renew([(uuid4(), Token(1, 1))], 1000),
    "snapshot": lambda store: store.put_snapshots([(uuid4(), SnapshotRow(1, "t", b"{}"), 1)]),
    "track": lambda store: store.track("follower", 1),
    "gate": lambda store: store.set_gate("g", 1, 0),
    "outbox": lambda store: store.delete_outbox([1]),
    "rebuild": lambda store: store.rebuild_begin("me", 1000),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_store_opened_for_reading_refuses_every_write(database_url: str, write: Callable[[Any], Any]) -> None:
    open_store(database_url).close()
    store = open_store(database_url, read_only=True)

    with pytest.raises(StoreError, match="read_only"):
        write(store)

    assert store.head() == 0
    store.close()


@pytest.mark.postgres
def test_a_standby_is_followed_and_refused_for_anything_else(cluster: Cluster) -> None:
    with JobLog.open(cluster.primary) as log:
        position = log.submit(JobSpec("kind", {}, key="replicated")).position
    with pytest.raises(UnsafeStoreError, match="standby"):
        open_store(cluster.standby)

    with JobLog.open(cluster.standby, read_only=True) as log:
        pages = until(lambda: log.store.log(position - 1, 10))
        with pytest.raises(StoreError, match="read_only"):
            log.submit(JobSpec("kind", {}, key="another"))

    assert pages[0].position == position
