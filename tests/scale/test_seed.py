"""A seeded log is what it would be had every job been lived: measurements on it mean something."""

from joblog.projections.compare import compare
from joblog.projections.views import VIEWS
from joblog.workers.commands.log import JobLog
from tests.scale.seed import seed


def test_a_seeded_log_is_as_its_events_say(database_url: str) -> None:
    events, _ = seed(database_url, 1200)

    with JobLog.open(database_url) as log:
        assert log.store.head() == events
        for name in ("jobs", *VIEWS):
            made = compare(log.store, log.mapper, name, units=True)
            assert (name, made["differences"], made["position"]) == (name, 0, events), made["items"][:3]
        [held] = log.claim("w", queues=["queue-00"], limit=1)  # the indexes are there again, and the log goes on
        assert held.job.kind == "kind-00"
