"""Every text comes back as it was or is refused at the edge, with its path; nothing is written then."""

import sys
from random import Random
from typing import Any

import pytest

from joblog.domain import identity, storable
from joblog.domain.errors import InputError, TooLargeError, UnstorableError
from joblog.domain.job import Actor
from joblog.domain.storable import EVIDENCE_LIMIT
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import a_spec, an_append, claim, claimed, ids, refused, stored, submit, unit_append

STRANGE = {
    "emoji": "🙂👩‍👩‍👧",
    "NUL": "a\x00b",
    "escaped NUL": "a\\u0000b",
    "controls": "".join(map(chr, range(32))) + "\x7f\x85\u2028",
    "quotes": "'\"`\\%_;--",
    "percent": "%s %(x)s ? :x {0}",
    "combining": "e\u0301 é",
    "noncharacters": "\uffff\ufdd0\U0010ffff",
    "right to left": "שלום\u202e",
    "long": "ä" * 5000,
}


def test_any_text_in_a_payload_comes_back(backend: Backend, log: JobLog) -> None:
    jobs = {}
    for name, text in STRANGE.items():
        held = claimed(log, args={"text": text} | ({} if "\x00" in text else {text[:50]: 1}))
        held.complete_units([("a", [text])], cursor={"c": text})
        held.complete({"r": text})
        jobs[name] = held.job_id

    again = backend.reopen(log)

    for name, text in STRANGE.items():
        job = again.job(jobs[name])
        assert (job.args["text"], job.cursor, job.result) == (text, {"c": text}, {"r": text}), name


NAMES = ["🙂", "%s", "a'b\"c\\d", "é", "e\u0301", "\U0010ffff", "x" * 200, "ä" * 200]


def test_any_printable_name_can_be_used(backend: Backend, log: JobLog) -> None:
    jobs = {}
    for name in NAMES:
        fields = dict.fromkeys(("kind", "tenant", "queue", "owner", "gate", "exclusive_key"), name)
        jobs[name] = submit(log, name, tags=(name,), **fields)
        log.store.set_gate(identity.gate(name, name), 3, 0)
        [held] = claim(log, name, queues=[name], kinds=[name], presence=name)
        held.complete_units([(name, 1)])

    again = backend.reopen(log)

    for name, job_id in jobs.items():
        row = again.row(job_id)
        assert [row[column] for column in ("kind", "tenant", "queue", "owner", "worker")] == [name] * 5
        assert row["gate"] == identity.gate(name, name)
        assert set(again.store.unit_states(job_id)) == {name}
        assert [found["id"] for found in again.store.find_jobs(tenant=name, queue=name, kind=name)] == [job_id]


def test_the_longest_names_fit_into_every_index(log: JobLog) -> None:
    """All at once, of wide characters without any pattern."""
    random = Random(1)

    def wide(first: int, last: int) -> str:
        return "".join(chr(random.randrange(first, last)) for _ in range(200))

    kind, tenant, queue, gate, key, unit = (wide(0x4E00, 0x9FFF) for _ in range(6))
    job_id = submit(log, key, kind=kind, tenant=tenant, queue=queue, gate=gate, exclusive_key=key)
    [held] = claim(log, queues=[queue])
    held.complete_units([(unit, 1)])

    assert held.job_id == job_id
    with pytest.raises(TooLargeError, match="800 bytes"):
        submit(log, kind=wide(0x20000, 0x2A6D0))


@pytest.mark.parametrize("bad", ["a\x00b", "a\nb", "\ud800", "x" * 201])
def test_a_name_that_cannot_be_kept_is_refused(log: JobLog, bad: str) -> None:
    for field in ("kind", "tenant", "queue", "key", "owner", "gate", "exclusive_key"):
        with pytest.raises(InputError) as error:
            log.submit(a_spec(**{field: bad}))
        assert error.value.field == field

    assert log.store.head() == 0


BAD = ["\ud83d", float("nan"), float("inf"), 2**63, 2**70, b"x", (1,), {1: 1}, {"a\x00": 1}, object()]


@pytest.mark.parametrize("where", ["args", "evidence", "cursor", "result"])
def test_a_payload_that_cannot_be_kept_is_refused_by_path(log: JobLog, where: str) -> None:
    held = None if where == "args" else claimed(log)
    head = log.store.head()

    for bad in BAD:
        with pytest.raises(UnstorableError, match=r"rows\[1\]\.bad"):
            _hand_in(log, held, where, {"rows": [0, {"bad": bad}]})

    assert log.store.head() == head
    if held is not None:
        assert held.complete_units([("fine", 1)]) == head + 1


def _hand_in(log: JobLog, held: Any, where: str, value: Any) -> None:
    if where == "args":
        log.submit(a_spec(args=value))
    elif where == "evidence":
        held.complete_units([("a", value)])
    elif where == "cursor":
        held.complete_units([("a", 1)], cursor=value)
    else:
        held.complete(value)


@pytest.mark.parametrize("tallies", [{"x": 2**63}, {"x": 2**70}, {"\ud800": 1}, {"a\x00": 1}, [], ["x"], "", 0])
def test_tallies_that_cannot_be_kept_are_refused(log: JobLog, tallies: Any) -> None:
    held = claimed(log)

    with pytest.raises(InputError):
        held.complete_units([("a", 1)], tallies=tallies)

    assert log.store.head() == 2


def test_numbers_come_back_exactly(backend: Backend, log: JobLog) -> None:
    numbers = [2**63 - 1, -(2**63), 2**53 + 1, 0.1, 1e308, -0.0, 5e-324]
    held = claimed(log, args=numbers)
    held.complete_units([("a", numbers)], cursor=numbers)

    job = backend.reopen(log).job(held.job_id)

    assert repr(job.args) == repr(job.cursor) == repr(numbers)


def test_the_largest_evidence_is_kept(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    frame = len(unit_append(log, held, evidence="").events[0].state)
    evidence = "x" * (EVIDENCE_LIMIT - frame)

    held.complete_units([("a", evidence)])

    again = backend.reopen(log)
    assert evidence.encode() in again.store.unit_states(held.job_id)["a"]


@pytest.mark.parametrize(
    ("where", "size"),
    [("args", 64 * 1024), ("evidence", EVIDENCE_LIMIT), ("cursor", 16 * 1024), ("result", EVIDENCE_LIMIT)],
)
def test_what_is_over_its_limit_is_refused(log: JobLog, where: str, size: int) -> None:
    held = None if where == "args" else claimed(log)
    head = log.store.head()

    with pytest.raises(TooLargeError, match="checkpoint" if where == "cursor" else where):
        _hand_in(log, held, where, "é" * (size // 2) + "x")

    assert log.store.head() == head


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


FAILURES: dict[str, Any] = {
    **STRANGE,
    "surrogates": "\ud83d and \udc00",
    "bytes": b"\xff\x00",
    "an error": ValueError("\x00\ud800"),
    "an error without a text": MuteError(),
    "very long": "\x00" * 100_000,
    "empty": "",
    "file name": "\udcff".encode("utf-8", "surrogateescape"),
}


@pytest.mark.parametrize("how", ["fail", "park", "schedule_retry", "skip_unit"])
def test_any_failure_text_can_be_stored(backend: Backend, log: JobLog, how: str) -> None:
    jobs = {}
    for name, text in FAILURES.items():
        held = claimed(log, name, queue=name)
        jobs[name] = held.job_id
        if how == "fail":
            held.fail(reason="bad", text=text)
        elif how == "park":
            held.park(reason="quota", text=text)
        elif how == "schedule_retry":
            held.schedule_retry("a", category="network", text=text)
        else:
            held.skip_unit("a", code="bad-row", text=text)

    again = backend.reopen(log)

    for name, text in FAILURES.items():
        [kept] = again.job(jobs[name]).errors
        assert len(kept["text"]) <= 6 * storable.TEXT_LIMIT, name
        if type(text) is str and len(text) <= storable.TEXT_LIMIT:
            assert storable.unescape(kept["text"]) == text, name


def test_an_operators_text_can_always_be_stored(backend: Backend, log: JobLog) -> None:
    job_id = submit(log)

    log.command("pause", job_id, Actor("ada", text="\x00\ud800🙂"))

    row = backend.reopen(log).row(job_id)
    assert storable.unescape(row["reason_text"]) == "\x00\ud800🙂"


def test_a_value_that_a_driver_chokes_on_harms_no_other_append(log: JobLog) -> None:
    """It got past the gate: whoever shares a transaction with it lands all the same."""
    held = claimed(log)
    bad = unit_append(log, held)
    bad.units = (("\ud800", 0),)

    answers = log.writer.append_many([an_append(), bad, an_append()])

    if log.store.dialect != "memory":  # where any value is as good as another
        refused(answers[1])
        assert log.store.count_units(held.job_id) == 0
    assert stored(answers[2]) > stored(answers[0])


def test_an_integer_beyond_64_bits_is_no_priority(log: JobLog) -> None:
    with pytest.raises(InputError):
        log.submit(a_spec(priority=2**70))
    with pytest.raises(InputError):
        log.submit(a_spec(total=2**63))
    log.submit(a_spec(total=2**63 - 1))
    assert sys.maxsize == 2**63 - 1


def test_one_key_in_two_forms_is_two_keys(log: JobLog) -> None:
    """Unicode is kept as given, not normalized: é and e with an accent are two."""
    jobs = {submit(log, key) for key in ("é", "e\u0301", "É", "e", "ﬁ", "fi")}

    assert len(jobs) == 6
    assert set(ids(claim(log))) == jobs
