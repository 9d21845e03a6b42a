"""Every refusal is a problem document with the status that the documentation gives, and its type is a page."""

from __future__ import annotations

import pytest

from joblog.api.http import problems
from joblog.domain.errors import InvalidFieldError, JobLogError, StateError, StoreError, VersionConflictError
from tests.api.http.client import Client
from tests.test_errors_doc import CLASSES, ROWS


def made(cls: type[JobLogError]) -> JobLogError:
    error = cls.__new__(cls, "text")
    Exception.__init__(error, "text")
    vars(error).update(field="args.rows[3].name", problem="bad", way_out="mend it")
    return error


@pytest.mark.parametrize("code", CLASSES)
def test_the_status_of_a_refusal_is_the_documented_one(code: str) -> None:
    assert problems.status_of(made(CLASSES[code])) == int(ROWS[code][4])


def test_a_stale_version_is_a_failed_precondition_where_there_was_one() -> None:
    error = VersionConflictError(None, 3)

    assert (problems.status_of(error), problems.status_of(error, conditional=True)) == (409, 412)


def test_a_field_is_pointed_at() -> None:
    document = problems.document(InvalidFieldError("args.rows[3].a/b", "bad", "mend it"), 422, "r")

    assert document["errors"] == [{"pointer": "/args/rows/3/a~1b", "code": "invalid-field", "detail": "bad"}]


def test_a_text_that_no_json_can_hold_is_shown_escaped() -> None:
    assert b"\\\\udc80" in problems.encode({"detail": "\udc80"})


def test_the_documentation_is_in_the_package() -> None:
    assert problems.refusals().keys() == CLASSES.keys()


@pytest.mark.parametrize("error", [StoreError("x"), StateError(None, "x")])
def test_a_problem_has_what_rfc_9457_asks_for(error: JobLogError) -> None:
    document = problems.document(error, problems.status_of(error), "r")

    assert document["type"] == f"/problems/{error.code}"
    assert {"title", "status", "detail"} <= document.keys()


def test_every_type_of_problem_is_a_page(on_file: Client) -> None:
    for code in ROWS:
        page = on_file.get(f"/problems/{code}")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8"), code
        assert code.encode() in page.body
    assert on_file.get("/problems/none-such").code == "route-not-found"


def test_the_router_s_own_refusals_are_problems_too(on_file: Client) -> None:
    assert on_file.get("/nowhere").code == "route-not-found"
    wrong = on_file.request("DELETE", "/api/v1/jobs")
    assert (wrong.code, wrong.status, wrong.headers["allow"]) == ("method-not-allowed", 405, "GET, HEAD, POST")
    assert on_file.get("/api/v1/jobs/%ff").code == "job-not-found"
    assert on_file.get("/api/v1/jobs/not-an-id").status == 404


def test_a_request_id_comes_back_and_a_bad_one_is_replaced(on_file: Client) -> None:
    assert on_file.get("/nowhere", X_Request_Id="mine-1234").json["request_id"] == "mine-1234"
    assert on_file.get("/livez", X_Request_Id="mine-1234").headers["x-request-id"] == "mine-1234"
    assert on_file.get("/livez", X_Request_Id="with space").headers["x-request-id"] != "with space"
