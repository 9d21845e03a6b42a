"""Every way in: the router, the rights, the OpenAPI document and the tests are made of this one table."""

from __future__ import annotations

from typing import Any, Final

from ...projections.compare import JOBS
from ...projections.views import VIEWS
from ..web.routes import PAGES
from . import (
    chores,
    documents,
    exporting,
    following,
    gates,
    holders,
    jobs,
    metrics,
    protocol,
    status,
    submitting,
    views,
)
from . import service_types as s
from . import types as t
from . import view_types as v
from .route import Route

_JOB: Final = "/api/v1/jobs/{id}"
_CLAIM: Final = "/api/v1/claims/{id}"
_HTML: Final = "text/html"

_CONSUMERS: Final[tuple[Any, ...]] = (
    ("GET", "", views.list_consumers, "List consumers of the feed", v.Consumers, {}),
    ("PUT", "/{name}", views.move_consumer, "Move a consumer forward", v.Consumer, {"body": v.Move}),
    ("DELETE", "/{name}", views.drop_consumer, "Forget a consumer", None, {"status": 204}),
)

API: Final[tuple[Route, ...]] = (
    # jobs
    Route("GET", "/api/v1/jobs", "jobs:read", jobs.list_jobs, "List jobs", t.JobPage, query=t.JobFilters),
    Route(
        "POST",
        "/api/v1/jobs",
        "jobs:write",
        submitting.submit_job,
        "Hand in a job",
        t.Submitted,
        body=t.NewJob,
        status=201,
        other_status=(200, 202),
        needs_key=True,
        on_loop=True,
    ),
    Route(
        "POST",
        "/api/v1/batches",
        "jobs:write",
        submitting.submit_jobs,
        "Hand in many jobs",
        t.Batch,
        body=t.NewJobs,
        on_loop=True,
    ),
    Route("GET", _JOB, "jobs:read", jobs.get_job, "Look at a job", t.Job, query=t.AsOf),
    Route("GET", f"{_JOB}/events", "jobs:read", jobs.job_events, "Its events", t.EventPage, query=t.AfterVersion),
    Route("GET", f"{_JOB}/units", "jobs:read", jobs.job_units, "Its finished units", t.UnitPage, query=t.AfterUnit),
    Route("GET", f"{_JOB}/attempts", "jobs:read", jobs.job_attempts, "Its attempts", t.Attempts),
    Route("GET", f"{_JOB}/history", "jobs:read", jobs.job_history, "Its turning points", t.History),
    Route("GET", f"{_JOB}/lease", "jobs:read", jobs.job_lease, "Who holds it", t.LeaseNow),
    Route("GET", f"{_JOB}/children", "jobs:read", jobs.job_children, "Its children", t.JobPage, query=t.AfterJob),
    Route("GET", f"{_JOB}/why", "jobs:read", jobs.job_why, "Why it stands where it stands", t.Why),
    Route(
        "POST",
        _JOB + "/{action:pause|resume|cancel|retry}",
        "jobs:control",
        submitting.command_job,
        "Command a job",
        t.Commanded,
        body=t.Command,
        needs_key=True,
        asks=True,
    ),
    Route(
        "POST",
        f"{_JOB}/retry-skipped",
        "jobs:control",
        submitting.retry_skipped,
        "Retry what a job has passed over",
        t.Retried,
        body=t.RetrySkipped,
        needs_key=True,
    ),
    Route(
        "POST",
        "/api/v1/bulk",
        "jobs:control",
        chores.bulk_jobs,
        "Command many jobs",
        t.Submitted,
        body=t.BulkCommand,
        status=202,
        other=((200, t.DryRun),),
        needs_key=True,
    ),
    # queues, workers, leases
    Route("GET", "/api/v1/queues", "jobs:read", holders.list_queues, "List queues", s.Queues, whole=True),
    Route(
        "POST",
        "/api/v1/queues/{name}/{action:pause|resume|limit}",
        "queues:control",
        submitting.command_queue,
        "Command a queue",
        s.QueueState,
        body=s.QueueCommand,
        needs_key=True,
        asks=True,
        whole=True,
    ),
    Route(
        "POST",
        "/api/v1/queues/{name}/jobs/{action:pause|resume|cancel|retry}",
        "jobs:control",
        chores.bulk_queue,
        "Command every job of a queue",
        t.Submitted,
        body=s.Reason,
        status=202,
        needs_key=True,
        whole=True,
    ),
    Route("GET", "/api/v1/workers", "jobs:read", holders.list_workers, "List workers", s.Workers, whole=True),
    Route(
        "GET",
        "/api/v1/leases",
        "jobs:read",
        holders.list_leases,
        "List leases",
        s.Leases,
        query=s.LeaseLimit,
        whole=True,
    ),
    # the log
    Route(
        "GET",
        "/api/v1/feed",
        "feed:read",
        following.follow_log,
        "Follow the log",
        s.FeedPage,
        query=s.FeedQuery,
        on_loop=True,
    ),
    Route(
        "GET",
        "/api/v1/log",
        "feed:read",
        following.read_log,
        "Read the log as stored",
        s.LogPage,
        query=s.FeedQuery,
        on_loop=True,
    ),
    *(
        Route(method, f"/api/v1/consumers{path}", "feed:read", handler, summary, answer, whole=True, **more)
        for method, path, handler, summary, answer, more in _CONSUMERS
    ),
    # what is derived from it
    Route(
        "GET", "/api/v1/schedule", "jobs:read", views.list_schedule, "What is due", v.Schedule, query=v.ScheduleQuery
    ),
    Route("GET", "/api/v1/gates", "jobs:read", gates.list_gates, "List gates", v.Gates, whole=True),
    *(
        Route(
            "POST",
            path,
            "queues:control",
            handler,
            summary,
            v.OneGate,
            body=body,
            needs_key=True,
            whole=True,
            asks=True,
        )
        for path, handler, summary, body in (
            ("/api/v1/gates/{gate:.+}/open", gates.open_gate, "Open a gate", v.OpenGate),
            ("/api/v1/gates/{gate:.+}/close", gates.close_gate, "Close a gate", v.CloseGate),
            ("/api/v1/gates/{gate:.+}/limit", gates.limit_gate, "Limit a gate", v.LimitGate),
        )
    ),
    Route("GET", "/api/v1/projections", "jobs:read", views.list_projections, "List views", v.Projections, whole=True),
    Route(
        "POST",
        f"/api/v1/projections/{{name:{'|'.join((JOBS, *VIEWS))}}}/{{action:rebuild|diff}}",
        "projections:admin",
        chores.care_for_projection,
        "Rebuild or compare a view",
        t.Submitted,
        body=v.Care,
        status=202,
        needs_key=True,
        whole=True,
    ),
    Route(
        "POST",
        "/api/v1/verify",
        "audit",
        chores.verify_log,
        "Verify the log",
        v.Verification,
        body=v.VerifyRange,
        other=((202, t.Submitted),),
        needs_key=True,
        whole=True,
    ),
    Route(
        "GET",
        "/api/v1/export",
        "audit",
        exporting.export_log,
        "Export the log",
        query=v.ExportRange,
        whole=True,
        on_loop=True,
        media=exporting.NDJSON,
    ),
    Route(
        "GET",
        "/api/v1/export/manifest",
        "audit",
        exporting.export_manifest,
        "What an export comes to",
        dict,
        query=v.ManifestRange,
        whole=True,
        on_loop=True,
    ),
    Route("GET", "/api/v1/archives", "audit", views.list_archives, "List archives", s.Archives, whole=True),
    Route(
        "GET",
        "/api/v1/recovery",
        "admin",
        views.recovery_report,
        "The recovery report",
        v.RecoveryReport,
        query=v.RecoveryQuery,
        whole=True,
    ),
    Route(
        "POST",
        "/api/v1/recovery",
        "admin",
        views.note_recovery,
        "Report something",
        v.Noted,
        body=v.Note,
        needs_key=True,
        whole=True,
    ),
    Route(
        "GET",
        "/api/v1/security",
        "admin",
        views.list_security,
        "The security stream",
        v.SecurityPage,
        query=v.SecurityQuery,
        whole=True,
    ),
    # workers in any language
    Route(
        "POST",
        "/api/v1/claims",
        "workers",
        protocol.claim_jobs,
        "Claim due jobs",
        s.Claims,
        body=s.ClaimRequest,
        whole=True,
        on_loop=True,
    ),
    *(
        Route("POST", f"{_CLAIM}/{verb}", "workers", handler, summary, s.Holding, body=body, whole=True)
        for verb, handler, summary, body in (
            ("renew", protocol.renew_claim, "Keep the lease", s.Held),
            ("attempt", protocol.attempt_unit, "Begin a unit", s.UnitAttempt),
            ("advance", protocol.advance_claim, "Record a unit", s.Advance),
            ("retry-later", protocol.retry_later, "Try a unit later", s.RetryLater),
            ("complete", protocol.complete_claim, "Complete the job", s.Complete),
            ("fail", protocol.fail_claim, "Fail the job", s.Fail),
            ("release", protocol.release_claim, "Give the job back", s.Release),
        )
    ),
    Route("GET", _CLAIM + "/units/{unit:.+}", "workers", protocol.find_unit, "Look a unit up", s.FoundUnit, whole=True),
    # about the service
    Route("GET", "/livez", "", status.livez, "Whether it lives", s.Health, on_loop=True),
    Route(
        "GET",
        "/readyz",
        "",
        status.readyz,
        "Whether it can serve",
        s.Health,
        query=s.HealthQuery,
        other_status=(503,),
        on_loop=True,
    ),
    Route("GET", "/startupz", "", status.startupz, "Whether it has started", s.Health, on_loop=True),
    Route("GET", "/metrics", "metrics", metrics.metrics, "Metrics", media="text/plain", whole=True),
    Route("GET", "/api/openapi.json", "", documents.openapi_document, "The OpenAPI document", dict),
    Route("GET", "/problems/{code}", "", documents.problem_page, "What a problem means", media=_HTML),
)

ROUTES: Final = (*API, *PAGES)
