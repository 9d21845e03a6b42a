"""Looking into the recovery report: filters, search and pages, the same on every store (RPT-09..19)."""

from typing import Any

import pytest

from joblog.domain.errors import InvalidFieldError
from joblog.domain.job import Actor
from joblog.projections import queries
from joblog.workers.commands import recovery
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import ADA, submit
from tests.projections.viewing import runner

BOB = Actor("bob", address="::ffff:192.0.2.7", text="by hand")


def report(log: JobLog, **options: Any) -> list[dict[str, Any]]:
    runner(log).run()
    return queries.recovery_page(log.store, **options).rows


def types(log: JobLog, **options: Any) -> list[str]:
    return [row["type"] for row in report(log, **options)]


def noted(log: JobLog, kind: str, **fields: Any) -> int:
    return recovery.note(log, {"type": kind, **fields}, ADA)


def some_rows(log: JobLog) -> None:
    noted(log, "a", done=True)
    noted(log, "b", done=False)
    noted(log, "c", done=True, deleted=True)
    noted(log, "d", done=False, deleted=True)
    noted(log, "e")


def test_filters_before_count_and_page(log: JobLog) -> None:
    """RPT-09, RPT-10: what does not say whether it is done counts as done."""
    some_rows(log)

    for chosen, wanted in {"all": "edcba", "done": "eca", "failed": "db", "deleted": "dc"}.items():
        assert "".join(types(log, filter=chosen)) == wanted
        assert queries.recovery_count(log.store, filter=chosen) == len(wanted)
        assert queries.recovery_page(log.store, filter=chosen).total == len(wanted)


def test_an_unknown_filter_is_refused(log: JobLog) -> None:
    """RPT-12."""
    for chosen in ("", "Done", "none", "all;"):
        with pytest.raises(InvalidFieldError, match="filter"):
            queries.recovery_page(log.store, filter=chosen)


SEARCHES = {
    "a.*b": ["literal"],
    "100%": ["percent"],
    "%": ["percent"],
    "_": ["under"],
    "\\": ["back"],
    "ÄRGER": ["letters"],
    "  BOARDS ": ["subsystem"],
    "percent": ["percent"],
    "nothing of the kind": [],
    "' OR 1=1 --": [],
    "\0": ["subsystem", "letters", "back", "under", "percent", "literal"],
    "": ["subsystem", "letters", "back", "under", "percent", "literal"],
}


def test_a_search_is_literal_and_does_not_mind_case(log: JobLog) -> None:
    """RPT-11: over type, detail and database; nothing in it means anything else."""
    noted(log, "literal", detail="a.*b")
    noted(log, "percent", detail="at 100% of it")
    noted(log, "under", detail="a_b")
    noted(log, "back", detail="c:\\temp")
    noted(log, "letters", detail="viel ärger")
    noted(log, "subsystem", database="Boards")

    for words, wanted in SEARCHES.items():
        assert types(log, search=words) == wanted
        assert queries.recovery_count(log.store, search=words) == len(wanted)


def test_a_search_and_a_filter_are_both_meant(log: JobLog) -> None:
    some_rows(log)
    noted(log, "bb", done=True)

    assert types(log, search="b", filter="failed") == ["b"]
    assert types(log, search="b") == ["bb", "b"]


def test_pages_under_equal_times_are_disjoint_and_complete(backend: Backend) -> None:
    """RPT-13, RPT-14: the clock stands still."""
    log = backend.open()
    for number in range(25):
        noted(log, f"n{number:02}")

    pages = [types(log, page=number) for number in (1, 2, 3)]

    assert [len(page) for page in pages] == [10, 10, 5]
    assert [kind for page in pages for kind in page] == [f"n{number:02}" for number in reversed(range(25))]


def test_newest_first_by_when_it_happened(backend: Backend) -> None:
    """RPT-28."""
    log = backend.open()
    noted(log, "late", at="2029-06-01T00:00:00Z")
    noted(log, "early", at="2028-06-01T00:00:00Z")
    noted(log, "now")

    assert types(log) == ["now", "late", "early"]


@pytest.mark.parametrize(
    ("total", "page", "window"),
    [
        (0, 1, (1, 1, 0)),
        (0, 99, (1, 1, 0)),
        (1, 1, (1, 1, 0)),
        (10, 2, (1, 1, 0)),
        (11, 2, (2, 2, 10)),
        (11, 99, (2, 2, 10)),
        (11, -1, (1, 2, 0)),
        (11, 0, (1, 2, 0)),
        (11, "x", (1, 2, 0)),
        (11, None, (1, 2, 0)),
        (11, "2", (2, 2, 10)),
        (11, 10**30, (2, 2, 10)),
    ],
)
def test_the_window_of_a_page(total: int, page: object, window: tuple[int, int, int]) -> None:
    """RPT-15: one function feeds both query and counter."""
    assert queries.page_window(total, page) == window


def test_a_total_that_was_counted_before_is_not_counted_again(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """RPT-16."""
    some_rows(log)
    runner(log).run()
    total = queries.recovery_count(log.store)
    monkeypatch.setattr(log.store.views, "count", None)

    assert len(queries.recovery_page(log.store, total=total).rows) == 5


def test_an_empty_report(log: JobLog) -> None:
    page = queries.recovery_page(log.store)
    assert (page.rows, page.total, page.window.pages, page.position) == ([], 0, 1, 0)


def test_no_field_is_ever_missing(log: JobLog) -> None:
    """RPT-19."""
    noted(log, "x")
    submit(log)
    log.command("pause", submit(log), BOB)
    for row in report(log):
        assert {name for name, value in row.items() if value is None} <= {"checkpoint", "attempt", "next_retry_at"}
