"""RAF-01 to RAF-13: what a provider's fields ask for, row by row, and never an exception."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.workers.outbound.retry_after import CAP_SECONDS, READ_ON, ResetForm, Wait, parse
from tests.workers.outbound import corpora

ROWS = corpora.rows("retry-after-corpus.tsv")
NOW = datetime.fromtimestamp(1_700_000_000, UTC)


def fields(text: str) -> tuple[list[tuple[str, str]], int]:
    """The header pairs of a row, and the status it stands on."""
    status, pairs = 429, []
    for part in corpora.unescaped(text).split(" | "):
        name, _, value = part.rpartition(": ") if part.startswith(":") else part.partition(": ")
        if name == ":status":
            status = int(value)
        else:
            pairs.append((name.rstrip(":"), value))
    return pairs, status


@pytest.mark.parametrize(("headers", "now", "expected", "reason"), ROWS, ids=[row[3] for row in ROWS])
def test_a_row_of_the_corpus(headers: str, now: str, expected: str, reason: str) -> None:
    pairs, status = fields(headers)

    wait = parse(pairs, status, datetime.fromtimestamp(int(now), UTC))

    if expected == "invalid":
        assert wait is None
    else:
        assert wait is not None
        assert min(wait.delay, CAP_SECONDS) == float(expected)


def test_the_corpus_is_whole() -> None:
    assert len(ROWS) == 144


def wait_of(*pairs: tuple[str, str], status: int = 429, now: datetime = NOW, form: ResetForm = "") -> Wait | None:
    return parse(pairs, status, now, reset_form=form)


@pytest.mark.parametrize(
    "value",
    [
        "+3",
        "-5",
        "1.5",
        "NaN",
        "Infinity",
        "soon",
        "12 34",
        ",",
        ",5",
        "5,,6",
        "5;6",
        "٣",
        "Tue, 14 Nov 2023 24:00:00 GMT",
    ],
)
def test_what_is_out_of_the_grammar_counts_as_absent(value: str) -> None:
    assert wait_of(("Retry-After", value)) is None


def test_the_same_instant_in_three_spellings_is_the_same_wait() -> None:
    spellings = ("Tue, 14 Nov 2023 22:15:20 GMT", "Tuesday, 14-Nov-23 22:15:20 GMT", "Tue Nov 14 22:15:20 2023")

    assert {wait_of(("Retry-After", text)) for text in spellings} == {Wait(120, "date", authoritative=True)}


def test_a_date_header_can_only_lengthen_the_wait() -> None:
    asked = ("Retry-After", "Tue, 14 Nov 2023 22:15:20 GMT")

    behind = wait_of(("Date", "Tue, 14 Nov 2023 22:11:20 GMT"), asked)  # our clock is two minutes ahead
    ahead = wait_of(("Date", "Tue, 14 Nov 2023 22:14:20 GMT"), asked)

    assert behind is not None
    assert ahead is not None
    assert (behind.delay, ahead.delay) == (240, 120)


def test_an_endless_number_still_has_an_instant() -> None:
    wait = wait_of(("Retry-After", "9" * 30))

    assert wait is not None
    assert wait.over_cap
    assert wait.until(NOW).year == 2091


@pytest.mark.parametrize("zeros", [10, 100, 5000])
def test_leading_zeros_say_nothing(zeros: int) -> None:
    wait = wait_of(("Retry-After", "0" * zeros + "7"))

    assert wait is not None
    assert wait.delay == 7


def test_only_a_retry_after_replaces_the_callers_own_back_off() -> None:
    both = wait_of(("Retry-After", "10"), ("X-RateLimit-Reset", "20"))

    assert both == Wait(20, "reset", authoritative=True)
    assert wait_of(("X-RateLimit-Reset", "20")) == Wait(20, "reset", authoritative=False)
    assert wait_of(("Retry-After", "20"), ("X-RateLimit-Reset", "10")) == Wait(20, "delta", authoritative=True)


FORMS: dict[ResetForm, str] = {
    "delta": "60",
    "epoch": "1700000060",
    "epoch-ms": "1700000060000",
    "rfc3339": "2023-11-14T22:14:20Z",
}


@pytest.mark.parametrize("declared", FORMS)
@pytest.mark.parametrize("sent", FORMS)
def test_a_declared_form_is_read_and_any_other_is_ignored(declared: ResetForm, sent: ResetForm) -> None:
    wait = wait_of(("X-RateLimit-Reset", FORMS[sent]), form=declared)

    assert wait == (Wait(60, "reset", authoritative=False) if sent == declared else None)


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("2023-11-15T00:14:20+02:00", 60),
        ("2023-11-14T17:14:20.25-05:00", 60.25),
        ("2023-11-14T22:14:20+24:00", None),
        ("2023-11-14T22:14:60Z", None),
        ("2023-02-30T22:14:20Z", None),
        ("0001-01-01T00:00:00+23:59", None),
    ],
)
def test_an_rfc_3339_reset(text: str, delay: float | None) -> None:
    wait = wait_of(("X-RateLimit-Reset", text))

    assert (wait and wait.delay) == delay


def test_other_statuses_are_no_reason_to_wait() -> None:
    read = {status for status in range(100, 600) if wait_of(("Retry-After", "5"), status=status)}

    assert read == READ_ON


@given(st.integers(0, 2**31), st.integers(0, 10**6 - 1), st.integers(0, 10**6 - 1))
def test_the_instant_is_never_earlier_than_asked_for(delta: int, fraction: int, micros: int) -> None:
    now = NOW + timedelta(microseconds=micros)
    wait = wait_of(("X-RateLimit-Reset", f"1700000060.{fraction:06}"), ("Retry-After", str(delta)), now=now)

    assert wait is not None
    assert wait.until(now) >= max(now + timedelta(seconds=delta), NOW + timedelta(seconds=60, microseconds=fraction))


NAMES = (
    "Retry-After",
    "Date",
    "X-RateLimit-Reset",
    "X-RateLimit-Remaining",
    "RateLimit",
    "RateLimit-Reset",
    "X-RateLimit-Reset-After",
)
CORPUS_VALUES = sorted({value for row in ROWS for _, value in fields(row[0])[0]})
_PARTS = (
    'Tue|Tuesday|, |14|31| Nov |-Feb-|2023|0000|9999|23:59:60| GMT|"a"|;r=0|;t=|99999999999999999999|.|:|T|Z|+23:59'
)
SHREDS = st.lists(st.sampled_from(_PARTS.split("|")), max_size=8)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES) | st.text(max_size=8),
            st.text() | st.sampled_from(CORPUS_VALUES) | SHREDS.map("".join),
        ),
        max_size=6,
    ),
    st.sampled_from(sorted(READ_ON)) | st.integers(),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["", *FORMS]),
)
def test_whatever_is_sent_the_answer_is_a_wait_or_none(
    pairs: list[tuple[str, str]], status: int, now: datetime, form: ResetForm
) -> None:
    wait = parse(pairs, status, now, reset_form=form)

    assert wait is None or (0 <= wait.delay <= 2**31 and wait.origin in {"delta", "date", "reset"})


@pytest.mark.parametrize(
    "value", ["0" * 200_000, "1," * 100_000, '"a";r=0,' * 30_000, '"' + "\\" * 200_000, "a" * 200_000, ";" * 200_000]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_long_value_costs_no_more_than_its_length(name: str, value: str) -> None:
    """A quadratic reading of these would take minutes."""
    wait_of((name, value))


@pytest.mark.parametrize(
    "field",
    [
        '"a";r=0;t=5;',
        '"a";r=0;t=5 "b"',
        '"a" ;r=0;t=5',
        '"a";R=0;t=5',
        '"a";r=00;t=+5',
        '"a";r=0;t=5,',
        '"a\x7f";r=0;t=5',
    ],
)
def test_a_malformed_rate_limit_is_ignored_whole(field: str) -> None:
    assert wait_of(("RateLimit", field)) is None


def test_an_item_without_its_numbers_does_not_hide_another() -> None:
    assert wait_of(("RateLimit", '"a";t=9, "b";r=0;t=5, limit;r=0;t=7, "c";r=?0;t=3, "d";r=0;t=-1')) == Wait(
        5, "reset", authoritative=False
    )
