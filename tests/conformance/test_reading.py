"""What is read back: streams, the log in pages, job rows, several streams as one."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from joblog.eventstore.append import EventRow
from joblog.eventstore.store import Store
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, an_append, claimed, set_queue, stored, submit, whole_log


def a_stream(log: JobLog, size: int = 5) -> tuple[UUID, list[EventRow]]:
    append = an_append(size=size)
    stored(log.writer.append(append))
    return append.stream_id, append.events


@pytest.mark.parametrize(
    ("query", "versions"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"after": 2}, [3, 4, 5]),
        ({"after": 5}, []),
        ({"after": 9}, []),
        ({"upto": 3}, [1, 2, 3]),
        ({"upto": 0}, []),
        ({"after": 1, "upto": 4}, [2, 3, 4]),
        ({"after": 4, "upto": 2}, []),
        ({"limit": 2}, [1, 2]),
        ({"limit": 0}, []),
        ({"newest_first": True}, [5, 4, 3, 2, 1]),
        ({"newest_first": True, "limit": 2}, [5, 4]),
        ({"newest_first": True, "upto": 3, "after": 1, "limit": 9}, [3, 2]),
    ],
)
def test_a_stream_is_read_in_part(log: JobLog, query: dict[str, Any], versions: list[int]) -> None:
    a_stream(log, 2)
    stream, events = a_stream(log)
    a_stream(log, 2)

    assert log.store.read(stream, **query) == [events[version - 1] for version in versions]


def test_a_stream_that_is_not_there_is_empty(store: Store) -> None:
    assert store.read(uuid4()) == []


@pytest.mark.parametrize(
    ("after", "limit", "query", "positions"),
    [
        (0, 100, {}, [1, 2, 3, 4, 5, 6]),
        (2, 2, {}, [3, 4]),
        (6, 10, {}, []),
        (9, 10, {}, []),
        (0, 0, {}, []),
        (1, 10, {"upto": 4}, [2, 3, 4]),
        (4, 10, {"upto": 2}, []),
        (0, 10, {"topics": ["test.happened"]}, [1, 2, 3, 5]),
        (1, 2, {"topics": ["test.happened", "none"]}, [2, 3]),
        (0, 10, {"topics": ["joblog.job.submitted", "test.happened"], "upto": 5}, [1, 2, 3, 4, 5]),
        (0, 10, {"topics": ["TEST.happened"]}, []),
    ],
)
def test_the_log_is_read_in_pages(
    log: JobLog, after: int, limit: int, query: dict[str, Any], positions: list[int]
) -> None:
    a_stream(log, 3)
    submit(log)
    a_stream(log, 1)
    submit(log)

    assert [event.position for event in log.store.log(after, limit, **query)] == positions


def test_pages_make_the_whole_log(log: JobLog) -> None:
    a_stream(log, 23)

    pages = [log.store.log(after, 5) for after in range(0, 25, 5)]

    assert [event for page in pages for event in page] == whole_log(log.store)


def test_many_streams_are_read_as_one(log: JobLog) -> None:
    streams = dict(a_stream(log, size) for size in (1, 2, 3))
    nobody = uuid4()

    found = log.store.read_many([*streams, nobody, *streams])

    assert found == {stream: (None, events) for stream, events in streams.items()}
    assert log.store.read_many([]) == {}


def test_very_many_streams_are_read(log: JobLog) -> None:
    appends = [an_append() for _ in range(1200)]
    log.writer.append_many(appends)

    found = log.store.read_many([append.stream_id for append in appends])

    assert found == {append.stream_id: (None, append.events) for append in appends}


def test_rows_of_many_jobs_are_read(log: JobLog) -> None:
    jobs = [submit(log) for _ in range(3)]

    found = log.store.jobs([*jobs, uuid4(), *jobs])

    assert set(found) == set(jobs)
    assert found[jobs[0]] == log.store.job(jobs[0])
    assert log.store.jobs([]) == {}
    assert log.store.job(uuid4()) is None


def test_jobs_are_found_in_pages_the_newest_first(backend: Backend, log: JobLog) -> None:
    jobs = []
    for n in range(7):
        jobs.append(submit(log))
        backend.clock.move(n % 2)

    pages: list[list[UUID]] = []
    before = None
    while page := log.store.find_jobs(before=before, limit=3):
        pages.append([row["id"] for row in page])
        before = (page[-1]["created_at"], page[-1]["id"])

    assert [len(page) for page in pages] == [3, 3, 1]
    rows = log.store.jobs(jobs)
    newest = sorted(jobs, key=lambda job: (rows[job]["created_at"], job.bytes), reverse=True)
    assert [job for page in pages for job in page] == newest


def test_jobs_are_found_by_what_they_are(log: JobLog) -> None:
    running = claimed(log, tenant="a", queue="q", kind="x").job_id
    queued = submit(log, tenant="a", queue="p", kind="x")
    other = submit(log, tenant="b", queue="p", kind="y")

    def find(**query: str) -> set[UUID]:
        return {row["id"] for row in log.store.find_jobs(**query)}  # type: ignore[arg-type]

    assert find() == {running, queued, other}
    assert find(status="running") == {running}
    assert find(tenant="a") == {running, queued}
    assert find(queue="p", tenant="b") == {other}
    assert find(kind="x", status="queued") == {queued}
    assert find(tenant="A") == find(queue="none") == set()


def test_children_are_found_by_their_parent(log: JobLog) -> None:
    parent = submit(log)
    children = {submit(log, f"{n}", parent_id=parent) for n in range(2)}
    submit(log, "0", parent_id=uuid4())

    assert set(log.store.children(parent)) == children
    assert log.store.children(uuid4()) == []


def test_queues_are_known_once_touched(log: JobLog) -> None:
    submit(log, queue="plain")
    set_queue(log, "q", paused=True, slots=3)
    set_queue(log, "q", slots=None)
    set_queue(log, "r", slots=0)

    rows = log.store.queue_rows()

    assert {name: (row["paused"], row["slots"]) for name, row in rows.items()} == {
        "q": (False, None),
        "r": (False, 0),
    }


def test_a_list_is_stored_in_chunks_and_replaced(log: JobLog) -> None:
    job_id = submit(log)
    chunks = [b"one", b"", b"\x00\xff" * 1000]

    log.store.put_list(job_id, "rows", [b"left", b"by", b"a", b"crash"])
    log.store.put_list(job_id, "rows", chunks)
    log.store.put_list(job_id, "other", [b"x"])

    assert log.store.get_list(job_id, "rows") == chunks
    assert log.store.get_list(job_id, "none") == []


def test_threads_read_while_others_write(log: JobLog) -> None:
    stream, _ = a_stream(log, 1)

    def write() -> None:
        for version in range(1, 40):
            stored(log.writer.append(an_append(stream, version)))

    def read() -> list[int]:
        return [len(log.store.read(stream)) for _ in range(60)]

    writer, readers = Side(write), [Side(read) for _ in range(3)]
    writer.result()

    for reader in readers:
        lengths = reader.result()
        assert lengths == sorted(lengths)


def test_what_was_written_is_there_after_a_restart(backend: Backend, log: JobLog) -> None:
    """S1."""
    held = claimed(log)
    held.complete_units([("a", {"x": "é"})], cursor={"n": 1})
    log.store.track("f", 3)
    before = (whole_log(log.store), log.row(held.job_id), log.store.lease(held.job_id), log.store.state())

    again = backend.reopen(log)

    assert (
        whole_log(again.store),
        again.row(held.job_id),
        again.store.lease(held.job_id),
        again.store.state(),
    ) == before
    assert again.store.tracking_position("f") == 3
    assert set(again.store.unit_states(held.job_id)) == {"a"}
    assert stored(again.writer.append(an_append())) == 5


def test_a_page_that_ends_before_a_job_is_the_one_before_it(log: JobLog) -> None:
    for number in range(7):
        submit(log, f"job-{number}", owner="ada" if number % 2 else "bob")
    whole = log.store.find_jobs(limit=100)
    keys = [(row["created_at"], row["id"]) for row in whole]

    assert log.store.find_jobs(after=keys[5], limit=3) == whole[2:5]
    assert log.store.find_jobs(after=keys[0], limit=3) == []
    assert log.store.find_jobs(owner="ada", limit=100) == [row for row in whole if row["owner"] == "ada"]
