"""The page's routes: of the same table as the API's, with the same rights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from ..http.route import Nothing, Route
from ..http.view_types import RecoveryQuery
from . import forms, gate_pages, job_pages, log_pages, pages
from .render import static_file

if TYPE_CHECKING:
    from ..http.route import Call

_READ: Final = "jobs:read"
_open = partial(Route, "GET", page=True, media="text/html")
_form = partial(Route, "POST", page=True, media="text/html", body=forms.CommandForm, is_form=True)


def _screen(path: str, scope: str, handler: Callable[[Call], Any], summary: str, **more: Any) -> Route:
    """A page that knows how far the log was before it was read: what follows that place is not in it."""

    @wraps(handler)
    def placed(call: Call) -> Any:
        state = call.log.store.state()
        call.place = f"{state.epoch}:{state.head}"
        return handler(call)

    return _open(path, scope, placed, summary, **more)


PAGES: Final[tuple[Route, ...]] = (
    _screen("/", _READ, pages.overview, "Overview"),
    _screen("/jobs", _READ, job_pages.jobs_page, "Jobs", query=forms.JobLinks),
    _screen("/jobs/{id}", _READ, job_pages.job_page, "Job", query=forms.JobQuery),
    _form(
        "/jobs/{id}/{action:pause|resume|cancel|retry}",
        "jobs:control",
        job_pages.command_page,
        "Command a job",
        asks=True,
    ),
    _form("/jobs/bulk", "jobs:control", job_pages.bulk_page, "Command many jobs", body=forms.BulkForm),
    _screen("/queues", _READ, pages.queues_page, "Queues", whole=True),
    _form(
        "/queues/{name}/{action:pause|resume}",
        "queues:control",
        pages.command_queue_page,
        "Command a queue",
        whole=True,
        asks=True,
    ),
    _screen("/workers", _READ, pages.workers_page, "Workers", whole=True),
    _screen("/gates", _READ, gate_pages.gates_page, "Gates", query=forms.GateLinks, whole=True),
    _form(
        "/gates/{action:open|close}",
        "queues:control",
        gate_pages.command_gate_page,
        "Command a gate",
        body=forms.GateForm,
        whole=True,
        asks=True,
    ),
    _screen("/recovery", "admin", pages.recovery_page, "Recovery", query=RecoveryQuery, whole=True),
    _screen("/feed", "feed:read", log_pages.feed_page, "Feed", query=forms.FeedLinks, whole=True),
    _screen("/projections", _READ, pages.projections_page, "Projections", query=forms.Told, whole=True),
    _form(
        "/projections/{name}/{action:rebuild|diff}",
        "projections:admin",
        pages.care_page,
        "Rebuild or compare a view",
        body=forms.CareForm,
        whole=True,
    ),
    _screen("/security", "admin", pages.security_page, "Security", whole=True),
    _screen("/admin", "admin", log_pages.admin_page, "Admin", query=forms.AdminLinks, whole=True),
    _form("/admin/tokens", "admin", log_pages.create_token_page, "Make a token", body=forms.TokenForm, whole=True),
    _form(
        "/admin/tokens/{token}/revoke",
        "admin",
        log_pages.revoke_token_page,
        "End a token",
        body=forms.RevokeForm,
        whole=True,
    ),
    _open("/sign-in", "", pages.sign_in_page, "Sign in", query=forms.SignIn),
    Route("POST", "/sign-out", _READ, pages.sign_out_page, "Sign out", page=True, body=Nothing, is_form=True),
    _open("/static/{file}", "", static_file, "Files of the page"),
)
