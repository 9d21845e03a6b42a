"""What monitoring reads, in the text format of Prometheus; no id, owner or tenant is ever a label."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ...eventstore import inspection
from ...eventstore.schema import SCHEMA_VERSION
from ...projections import queries
from ...projections.views import VIEWS
from .. import queue_list
from ..version import version
from .route import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...workers.commands.log import JobLog
    from .route import Call
    from .service import Service

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
_SERIES: Final = 100  #: (kind, queue) pairs that are told apart, and gates
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Requests:
    """Counts of this process' requests, by route and status."""

    def __init__(self) -> None:
        self.count: Counter[tuple[str, str, int]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.buckets: Counter[tuple[str, float]] = Counter()

    def add(self, method: str, path: str, status: int, seconds: float) -> None:
        """One more."""
        self.count[method, path, status] += 1
        name = f"{method} {path}"
        self.seconds[name] += seconds  # type: ignore[assignment]  # a sum of seconds, not a count
        for bound in _BUCKETS:
            if seconds <= bound:
                self.buckets[name, bound] += 1
                break


def metrics(call: Call) -> Answer:
    """The metrics."""
    service = call.service
    return Answer(service.together.ask("metrics", lambda: "\n".join(_lines(service)).encode() + b"\n"), media=MEDIA)


def _lines(service: Service) -> Iterator[str]:
    yield from _of_log(service)
    yield from _of_views(service.log)
    yield from _of_service(service)


def _of_log(service: Service) -> Iterator[str]:
    log = service.log
    state, now = log.store.state(), log.store.now()
    yield from _head("joblog_build_info", "gauge", "The version of code and schema.")
    yield _line("joblog_build_info", {"version": version() or "0", "schema": str(SCHEMA_VERSION)}, 1)
    yield from _head("joblog_log_position", "gauge", "The last position of the log.")
    yield _line("joblog_log_position", {}, state.head)
    yield from _head("joblog_log_epoch", "gauge", "The log's epoch.")
    yield _line("joblog_log_epoch", {}, state.epoch)
    queues = queue_list.items(log)
    for name, kind, text, value in (
        ("joblog_oldest_due_age_seconds", "gauge", "For how long the oldest due job has waited.", _age),
        ("joblog_leases", "gauge", "Jobs that run.", lambda one, _: one["running"]),
        (
            "joblog_ready_jobs",
            "gauge",
            f"Jobs that may be claimed now, as far as {inspection.FEW}; all that wait are in joblog_jobs.",
            _ready,
        ),
        ("joblog_queue_paused", "gauge", "Whether the queue is paused.", lambda one, _: int(one["paused"])),
    ):
        yield from _head(name, kind, text)
        yield from (_line(name, {"queue": one["queue"]}, value(one, now)) for one in queues)
    yield from _head("joblog_outbox_jobs", "gauge", "Submits that are not in the log yet.")
    yield _line("joblog_outbox_jobs", {}, inspection.outbox_size(log.store))
    yield from _head("joblog_consumer_lag_events", "gauge", "How far each follower is behind the log.")
    for name, position in inspection.followers(log.store).items():
        if name not in VIEWS:
            yield _line("joblog_consumer_lag_events", {"consumer": name}, max(state.head - position, 0))


def _of_views(log: JobLog) -> Iterator[str]:
    yield from _head("joblog_jobs", "gauge", 'Jobs by state, as far as the counters have come; small ones are "other".')
    for (state, kind, queue), jobs in _counted(log):
        yield _line("joblog_jobs", {"state": state, "kind": kind, "queue": queue}, jobs)
    lags = queries.lag(log.store)
    for name, text, value in (
        ("joblog_projection_lag_events", "How far each projection is behind the log.", lambda one: one.events),
        (
            "joblog_projection_lag_seconds",
            "Since when something is not shown there.",
            lambda one: round(one.seconds, 3),
        ),
        ("joblog_projection_stopped", "Whether it met an event that it can't fold.", _stopped),
    ):
        yield from _head(name, "gauge", text)
        yield from (_line(name, {"projection": one.name}, value(one)) for one in lags)
    yield from _head("joblog_gate_closed_seconds", "gauge", "For how long a provider's gate is still closed, at most.")
    now, closed = log.store.now(), dict[str, float]()
    for gate in log.store.gates():
        provider = gate.row.gate.partition("/")[0].partition("@")[0]  # neither tenant nor credential
        closed[provider] = max(closed.get(provider, 0.0), (gate.row.closed_until - now) / 1_000_000)
    for provider in sorted(closed)[:_SERIES]:
        yield _line("joblog_gate_closed_seconds", {"gate": provider}, round(closed[provider], 3))


def _counted(log: JobLog) -> list[tuple[tuple[str, ...], int]]:
    """Jobs by state, kind and queue: the largest of them, the others together, so that no number of kinds is too many."""
    found = queries.counters(log.store, by=("status", "kind", "queue"))
    sizes: Counter[tuple[str, str]] = Counter()
    for (_, kind, queue), jobs in found.items():
        sizes[kind, queue] += jobs
    shown = {one for one, _ in sizes.most_common(_SERIES)}
    made: Counter[tuple[str, ...]] = Counter()
    for (state, kind, queue), jobs in found.items():
        made[(state, kind, queue) if (kind, queue) in shown else (state, "other", "other")] += jobs
    return sorted(made.items())


def _stopped(one: queries.Lag) -> int:
    return int(one.stopped_at is not None)


def _age(one: dict[str, Any], now: int) -> float:
    return 0.0 if one["due"] is None else max(now - one["due"], 0) / 1_000_000


def _ready(one: dict[str, Any], _: int) -> int:
    return int(one["ready"])


def _of_service(service: Service) -> Iterator[str]:
    requests, guard = service.requests, service.guard
    yield from _head("joblog_http_requests_total", "counter", "Requests, by route and status.")
    counts = sorted(requests.count.copy().items())  # the loop adds to it meanwhile
    of_route: Counter[tuple[str, str]] = Counter()
    for (method, path, status), count in counts:
        of_route[method, path] += count
        yield _line("joblog_http_requests_total", {"method": method, "route": path, "status": str(status)}, count)
    yield from _head("joblog_http_request_duration_seconds", "histogram", "How long requests took.")
    for name, total in sorted(requests.seconds.copy().items()):
        method, _, path = name.partition(" ")
        labels, below = {"method": method, "route": path}, 0
        for bound in _BUCKETS:
            below += requests.buckets[name, bound]
            yield _line("joblog_http_request_duration_seconds_bucket", labels | {"le": f"{bound:g}"}, below)
        count = of_route[method, path]
        yield _line("joblog_http_request_duration_seconds_bucket", labels | {"le": "+Inf"}, count)
        yield _line("joblog_http_request_duration_seconds_sum", labels, round(total, 6))
        yield _line("joblog_http_request_duration_seconds_count", labels, count)
    for name, kind, text, value in (
        ("joblog_http_connections", "gauge", "Open connections.", len(guard.connections)),
        ("joblog_http_turned_away_total", "counter", "Connections over a cap.", guard.turned_away),
        ("joblog_http_closed_slow_total", "counter", "Connections closed over a deadline.", guard.closed_slow),
        ("joblog_feed_followers", "gauge", "Streams of the feed that are open.", service.feed.followers),
    ):
        yield from _head(name, kind, text)
        yield _line(name, {}, value)


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _line(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
