"""What may be submitted, and which job it names."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.domain import identity
from joblog.domain.errors import (
    InputError,
    InvalidFieldError,
    SecretInInputError,
    TooLargeError,
    UnstorableError,
)
from joblog.domain.job import Job
from joblog.domain.retry import RetryPolicy
from joblog.domain.spec import JobSpec
from joblog.domain.storable import ARGS_LIMIT
from tests.domain.builders import NOW, a_job, a_spec

PARENT = UUID(int=7)
PINNED = [
    "f2895862-be2e-5656-93a7-1438cce45e8f",
    "013b3c8e-d115-5622-b938-aa1c7e1dfb32",
    "bf55bff1-3431-5387-af09-bf80a43d8442",
    "f8f17faab95c024891d173fa43442b0e52007736a1f36715ac721ab22deeefc5",
]
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20)


def submitted(spec: JobSpec) -> dict[str, Any]:
    return vars(Job.submit(spec, now=NOW).pending_events[0])


def test_a_job_needs_a_kind_and_a_key_only() -> None:
    said = submitted(JobSpec("import", key="k"))

    assert (said["tenant"], said["queue"], said["priority"], said["due_at"]) == ("default", "default", 5, NOW)
    assert (said["args"], said["retry"], said["total"], said["parent_id"]) == (None, None, None, "")


@pytest.mark.parametrize("field", ["kind", "tenant", "queue"])
def test_what_names_a_job_is_required(field: str) -> None:
    with pytest.raises(InvalidFieldError, match=f"^{field}: empty"):
        a_spec(**{field: ""})


def test_a_spec_may_leave_its_key_to_the_log_but_no_job_goes_without_one() -> None:
    """All jobs without a key would be the same job."""
    with pytest.raises(InvalidFieldError, match=r"^key: empty"):
        Job.submit(JobSpec("import"), now=NOW)


@pytest.mark.parametrize("field", ["kind", "key", "tenant", "queue", "owner", "exclusive_key", "gate"])
@pytest.mark.parametrize("bad", ["x" * 201, "line\nbreak", "\ud800", 7, None])
def test_every_name_must_be_storable(field: str, bad: object) -> None:
    with pytest.raises(InputError) as refused:
        a_spec(**{field: bad})
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("priority", -1),
        ("priority", 10),
        ("priority", 1.0),
        ("priority", True),
        ("priority", "5"),
        ("total", -1),
        ("total", 2**63),
        ("total", 1.5),
        ("total", True),
        ("retry", {"retries": 1}),
        ("retry", None),
        ("tags", "nightly"),
        ("due_at", datetime(2030, 1, 1)),  # noqa: DTZ001 - that is the point
        ("due_at", "2030-01-01T00:00:00Z"),
        ("due_at", time(1, tzinfo=UTC)),
        ("due_at", datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))),
        ("due_at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=12)))),
    ],
)
def test_a_field_out_of_its_range_is_refused_by_name(field: str, bad: object) -> None:
    """REC-07, REC-17."""
    with pytest.raises(InvalidFieldError) as refused:
        a_spec(**{field: bad})
    assert refused.value.field == field


@pytest.mark.parametrize(("field", "good"), [("priority", 0), ("priority", 9), ("total", 0), ("tags", ["x"])])
def test_a_field_at_its_bound_is_taken(field: str, good: object) -> None:
    a_spec(**{field: good})


def test_a_due_time_is_stored_as_utc() -> None:
    """REC-07."""
    said = submitted(a_spec(due_at=datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))))

    assert (said["due_at"], said["due_at"].tzinfo) == (NOW, UTC)


def test_tags_are_bounded_and_named_in_a_refusal() -> None:
    assert a_job(tags=("x",) * 20).tags == ["x"] * 20
    with pytest.raises(TooLargeError, match=r"^tags: 21 tags"):
        a_spec(tags=("x",) * 21)
    with pytest.raises(InvalidFieldError, match=r"^tags\[1\]: empty"):
        a_spec(tags=("x", ""))


def test_arguments_are_a_reference_and_no_payload() -> None:
    """REC-02: at most 64 KiB, and the refusal does not repeat them."""
    edge = "x" * (ARGS_LIMIT - len('{"a":""}'))
    a_spec(args={"a": edge})

    for marker in (edge + "y", "é" * (ARGS_LIMIT // 2)):
        with pytest.raises(TooLargeError) as refused:
            a_spec(args={"a": marker})
        assert refused.value.field == "args"
        assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"a": float("nan")}, UnstorableError),
        ({"a": 2**64}, UnstorableError),
        ({"url": "https://u:p@h/x?token=T#f"}, SecretInInputError),
        ({"token": "T"}, SecretInInputError),
    ],
)
def test_arguments_pass_the_gate_before_anything_is_written(args: Any, error: type[InputError]) -> None:
    """REC-02, REC-03, SEC-01."""
    with pytest.raises(error):
        a_spec(args=args)


def test_the_arguments_stored_are_those_of_the_digest() -> None:
    """A caller may go on using its own dictionary."""
    args = {"rows": [1]}
    spec = a_spec(args=args)
    args["rows"].append(2)

    assert submitted(spec)["args"] == {"rows": [1]}
    assert submitted(spec)["args_digest"] == a_spec(args={"rows": [1]}).args_digest


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert a_spec(args={"a": 1, "b": 2}).args_digest == a_spec(args={"b": 2, "a": 1}).args_digest
    assert a_spec(args={"a": 1}).args_digest != a_spec(args={"a": 1.0}).args_digest


def test_the_policy_is_stored_with_the_job() -> None:
    assert a_job().policy == RetryPolicy()
    assert a_job(retry=RetryPolicy(retries=9)).retry == {"retries": 9}
    assert a_job(retry=RetryPolicy(retries=9)).policy == RetryPolicy(retries=9)


def test_ids_are_the_same_in_every_process_and_for_ever() -> None:
    """UNI-02: whatever the hash seed; the values pinned here must never change."""
    code = (
        "from uuid import UUID; from joblog.domain import identity as i; from joblog.domain.spec import JobSpec;"
        "s = JobSpec('import', {'b': [1, 'é'], 'a': None}, key='k');"
        "print(s.job_id, i.child_id(UUID(int=7), 'k'), i.queue_stream('default'), s.args_digest)"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "random")
    }

    assert [answer.split() for answer in answers] == [PINNED]
    spec = JobSpec("import", {"b": [1, "é"], "a": None}, key="k")
    assert [str(spec.job_id), spec.args_digest] == [PINNED[0], PINNED[3]]


@given(st.tuples(NAMES, NAMES, NAMES), st.tuples(NAMES, NAMES, NAMES))
def test_two_jobs_never_share_an_id(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (identity.job_id(*one) == identity.job_id(*other)) == (one == other)


def test_names_are_kept_apart_wherever_they_are_cut() -> None:
    assert identity.job_id("a", "bc", "d") != identity.job_id("ab", "c", "d")
    assert identity.job_id("1:a", "b", "c") != identity.job_id("a", "1:b", "c")


def test_a_child_is_named_by_its_parent_and_key() -> None:
    """The same child on resume; another one for another parent, or for no parent."""
    child = a_spec(parent_id=PARENT)

    assert child.job_id == a_spec(parent_id=PARENT).job_id == identity.child_id(PARENT, "k")
    assert len({child.job_id, a_spec(parent_id=UUID(int=8)).job_id, a_spec().job_id}) == 3
    assert submitted(child)["parent_id"] == str(PARENT)


def test_no_tenant_can_name_the_child_of_another_job() -> None:
    assert identity.child_id(PARENT, "k") != identity.job_id("child", str(PARENT), "k")


def test_an_exclusive_key_holds_within_its_tenant_only() -> None:
    one, other = a_spec(tenant="a", exclusive_key="b/c"), a_spec(tenant="a/b", exclusive_key="c")

    assert submitted(one)["exclusive_key"] != submitted(other)["exclusive_key"]
    assert submitted(a_spec())["exclusive_key"] == ""


def test_under_another_key_it_is_another_job_with_all_the_rest() -> None:
    given = JobSpec("import", {"a": [1, {"b": None}]}, tags=("x",), retry=RetryPolicy(retries=1))
    assert given.job_id != UUID(int=0)

    made = given.with_key("k")

    assert made == replace(given, key="k")
    assert (made.job_id, made.args_digest) == (identity.job_id("default", "import", "k"), given.args_digest)
    for bad in ("", "x" * 201, "a\x00b"):
        with pytest.raises(InputError, match="key"):
            given.with_key(bad)


def test_what_is_changed_after_it_was_handed_in_is_not_handed_in() -> None:
    args: dict[str, Any] = {"list": [1, [2]], "object": {"inner": {"n": 1}}}
    spec = JobSpec("import", args)
    before = json.dumps(spec.args)
    args["list"][1].append(3)
    args["object"]["inner"]["n"] = 2
    args["more"] = True

    assert json.dumps(spec.args) == before
