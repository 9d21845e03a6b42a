"""RTY-01 to RTY-03, RTY-11, RAF-05 to RAF-12: which answer is tried again, and when."""

from datetime import UTC, datetime, timedelta

import pytest

from joblog.workers.errors import Fatal, NeedsOperator, OperationError, ProviderWaits, RetryLater
from joblog.workers.outbound import verdict

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def judged(status: int, *headers: tuple[str, str]) -> OperationError:
    return verdict.of_status(status, verdict.hint(headers, status, NOW), NOW, reference="env:TOKEN")


def test_the_table_of_statuses() -> None:
    kinds: dict[int, type[OperationError]] = {status: type(judged(status)) for status in range(300, 600)}

    assert {status for status, kind in kinds.items() if kind is RetryLater} == (
        {408, 425, 429} | set(range(500, 600)) - {501, 505, 511}
    )
    assert {status for status, kind in kinds.items() if kind is NeedsOperator} == {401, 407}
    assert {kinds[status] for status in (400, 403, 404, 409, 410, 413, 415, 422, 501, 304)} == {Fatal}


def test_a_retry_after_is_the_instant_to_the_second_and_says_where_it_is_from() -> None:
    delta = judged(429, ("Retry-After", "90"))
    date = judged(503, ("Retry-After", "Tue, 01 Jan 2030 00:02:00 GMT"))

    assert isinstance(delta, ProviderWaits)
    assert isinstance(date, ProviderWaits)
    assert (delta.at, delta.origin, delta.lengthens) == (NOW + timedelta(seconds=90), "delta", False)
    assert (date.at, date.origin) == (NOW + timedelta(minutes=2), "date")


def test_a_reset_alone_only_lengthens_the_back_off() -> None:
    reset = judged(429, ("X-RateLimit-Reset", "60"))

    assert isinstance(reset, ProviderWaits)
    assert (reset.at, reset.origin, reset.lengthens) == (NOW + timedelta(seconds=60), "reset", True)


def test_without_a_hint_the_back_off_decides() -> None:
    later = judged(503)

    assert type(later) is RetryLater
    assert (later.at, later.after) == (None, None)


@pytest.mark.parametrize("status", [400, 404, 501])
def test_a_hint_on_a_final_status_causes_no_second_request(status: int) -> None:
    assert isinstance(judged(status, ("Retry-After", "5")), Fatal)
    assert verdict.hint([("Retry-After", "5")], status, NOW) is None


def test_a_hint_on_a_refusal_is_still_told_to_the_gate() -> None:
    assert isinstance(judged(403, ("Retry-After", "5")), Fatal)
    assert verdict.hint([("Retry-After", "5")], 403, NOW) is not None


@pytest.mark.parametrize("status", [507, 520, 529, 599])
def test_a_transient_status_that_nobody_lists_has_its_retry_after_heeded(status: int) -> None:
    later = judged(status, ("Retry-After", "90"))

    assert isinstance(later, RetryLater)
    assert later.at == NOW + timedelta(seconds=90)


def test_a_rejected_credential_names_its_reference() -> None:
    assert "env:TOKEN" in str(judged(401))


@pytest.mark.parametrize(
    ("code", "kind"),
    [(421, RetryLater), (450, RetryLater), (452, RetryLater), (454, RetryLater), (499, RetryLater), (500, Fatal),
     (530, NeedsOperator), (535, NeedsOperator), (550, Fatal), (554, Fatal), (-1, Fatal), (0, Fatal), (250, Fatal)],
)  # fmt: skip
def test_the_table_of_smtp_replies(code: int, kind: type[OperationError]) -> None:
    assert type(verdict.of_reply(code)) is kind
