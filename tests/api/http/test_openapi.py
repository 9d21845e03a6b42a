"""The OpenAPI document: made of the routes, kept as a snapshot, and what the service really does."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema_rs
import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from openapi_spec_validator import validate

from joblog.api.http import openapi
from joblog.api.http.guard import Limits
from joblog.api.http.routes import ROUTES
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client, a_key, a_token, serving

SNAPSHOT = Path(__file__).parents[3] / "docs" / "openapi.json"


def document() -> dict[str, Any]:
    return openapi.build(ROUTES, "0.1.0")


def test_the_document_is_valid_openapi_3_1() -> None:
    validate(document())


def test_the_document_is_the_snapshot() -> None:
    """Set JOBLOG_TEST_WRITE=1 to write a new one, and look at the difference."""
    made = json.dumps(document(), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("JOBLOG_TEST_WRITE"):
        SNAPSHOT.write_text(made, encoding="utf-8")
    assert made == SNAPSHOT.read_text(encoding="utf-8")


def test_the_service_serves_the_document(on_file: Client) -> None:
    assert Client(on_file.port).good("/api/openapi.json")["paths"].keys() == document()["paths"].keys()


def test_every_answer_is_of_its_type(on_file: Client, sqlite_log: JobLog) -> None:
    """Field by field, nothing more and nothing less, for a job that has everything."""
    job_id = on_file.submit(args={"n": 1}, exclusive_key="x", tags=["a"])
    on_file.post("/api/v1/queues/default/limit", {"slots": 5})
    [claim] = on_file.post("/api/v1/claims", {"worker": "w"}).json["claims"]
    base = f"/api/v1/claims/{job_id}"
    on_file.post(f"{base}/advance", {"token": claim["token"], "unit": "u", "evidence": 1})
    for route in ROUTES:
        if route.method != "GET" or route.answer in {None, dict}:
            continue
        path = re.sub(r"\{unit[^}]*\}", "u", route.path.replace("{id}", job_id))
        answer = on_file.good(path)
        made = msgspec.to_builtins(msgspec.convert(answer, route.answer))
        assert keys(made) == keys(answer), path


def keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: keys(one) for name, one in value.items()}
    return [keys(one) for one in value] if isinstance(value, list) else None


# -- what a stranger's client would find -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str, str]]:
    """Port, token and a job of a service that is asked all kinds of things."""
    path = tmp_path_factory.mktemp("openapi") / "joblog.db"
    with JobLog.open(f"sqlite:///{path}") as log, serving(log, limits=Limits(wait_seconds=0)) as server:
        job_id = log.submit(JobSpec("import", {"n": 1})).job_id
        yield server.port, a_token(log, "admin"), str(job_id)


DOCUMENT = document()
schema = schemathesis.openapi.from_dict(DOCUMENT)


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_service_and_every_answer_is_as_documented(
    case: schemathesis.Case[Any], place: tuple[int, str, str]
) -> None:
    port, token, job_id = place
    if is_moved := "id" in (case.path_parameters or {}) and len(repr(case.query)) % 2 > 0:
        case.path_parameters = {**case.path_parameters, "id": job_id}  # some of them meet a job
    headers = {"Authorization": f"Bearer {token}"}
    if case.headers and "Idempotency-Key" in case.headers and len(str(case.headers["Idempotency-Key"])) > 19:
        headers["Idempotency-Key"] = a_key()
    # Rights have a test of their own; whether a good request finds its job is chance.
    excluded = ["ignored_auth", "positive_data_acceptance"]
    if not is_wrong_when_sent(case, is_moved=is_moved):
        excluded.append("negative_data_rejection")
    sent: dict[str, Any] = {"base_url": f"http://127.0.0.1:{port}", "headers": headers}
    response = case.call(**sent)
    if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE and response.json()["code"] == "view-behind":
        excluded.append("not_a_server_error")  # nobody follows this log: the past is asked of a view that knows nothing
    case.validate_response(
        response,
        headers=headers,
        transport_kwargs=sent,
        excluded_checks=schemathesis.checks.CHECKS.get_by_names(excluded),  # type: ignore[arg-type]
    )


def is_wrong_when_sent(case: schemathesis.Case[Any], *, is_moved: bool) -> bool:
    """Whether what goes over the wire breaks the document: this test gives the header and some ids itself."""
    wrong = (
        {place.name for place, part in case.meta.components.items() if part.mode.is_negative} if case.meta else set()
    )
    return "BODY" in wrong or ("PATH" in wrong and not is_moved) or ("QUERY" in wrong and not is_good_query(case))


def is_good_query(case: schemathesis.Case[Any]) -> bool:
    """By the texts that arrive: an object is spread over the query, a list is a name that comes twice, null is nothing."""
    url = (
        requests.Request(
            "GET", params=case.as_transport_kwargs(base_url="http://127.0.0.1")["params"], url="http://127.0.0.1"
        )
        .prepare()
        .url
    )
    known = {
        one["name"]: one["schema"]
        for one in DOCUMENT["paths"][case.path][case.method.lower()].get("parameters", ())
        if one["in"] == "query"
    }
    sent = parse_qs(urlsplit(str(url)).query, keep_blank_values=True)
    return all(name in known and (len(texts) > 1 or is_good(texts[0], known[name])) for name, texts in sent.items())


def is_good(text: str, kind: dict[str, Any]) -> bool:
    """Whether a text of a query can be read as what the document says."""
    read: list[Any] = [text]
    with contextlib.suppress(ValueError):
        read.append(json.loads(text))
    rules = {**kind, "components": DOCUMENT["components"]}
    good = jsonschema_rs.Draft202012Validator(rules, validate_formats=True).is_valid
    return any(good(one) for one in read)
