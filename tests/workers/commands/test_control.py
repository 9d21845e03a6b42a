"""What operators may do to a job in each status, and who may (STA-01, STA-03, STA-11)."""

from uuid import uuid4

import pytest

from joblog.domain.errors import (
    ForbiddenError,
    InputError,
    InvalidFieldError,
    JobNotFoundError,
    StateError,
    SupersededError,
    VersionConflictError,
    WrongStateError,
)
from joblog.workers.commands.control import ACTIONS
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, submit
from tests.workers.commands.builders import an_actor, in_status, last, status, topics

STATUSES = (
    "queued", "running", "running, to pause", "running, to cancel", "waiting", "paused", "failed", "completed", "cancelled",
)  # fmt: skip
#: (status, action) -> status and wish behind it; everything else is refused.
ALLOWED: dict[tuple[str, str], tuple[str, str]] = {
    ("queued", "pause"): ("paused", ""),
    ("queued", "cancel"): ("cancelled", ""),
    ("running", "pause"): ("running", "pause"),
    ("running", "cancel"): ("running", "cancel"),
    ("running, to pause", "resume"): ("running", ""),
    ("running, to pause", "cancel"): ("running", "cancel"),
    ("waiting", "pause"): ("paused", ""),
    ("waiting", "cancel"): ("cancelled", ""),
    ("paused", "resume"): ("queued", ""),
    ("paused", "retry"): ("queued", ""),
    ("paused", "cancel"): ("cancelled", ""),
    ("failed", "resume"): ("queued", ""),
    ("failed", "retry"): ("queued", ""),
}
SUPERSEDED = {("running, to cancel", "pause"), ("running, to cancel", "resume")}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("before", STATUSES)
def test_every_action_on_every_status(log: JobLog, before: str, action: str) -> None:
    job_id = in_status(log, before)
    told, version = topics(log, job_id), log.row(job_id)["version"]
    expected = ALLOWED.get((before, action))

    if expected is None:
        with pytest.raises(StateError) as refused:
            log.command(action, job_id, an_actor())
        assert type(refused.value) is (SupersededError if (before, action) in SUPERSEDED else WrongStateError)
        assert topics(log, job_id) == told
    else:
        answer = log.command(action, job_id, an_actor())
        assert answer == (job_id, *expected, version + 1, False)
        row = log.row(job_id)
        assert (row["status"], row["wish"], row["version"]) == (*expected, version + 1)


def test_a_refusal_says_what_stands_against_it(log: JobLog) -> None:
    job_id = in_status(log, "completed")

    with pytest.raises(WrongStateError, match=r"can't cancel it while completed \(version 3\)"):
        log.command("cancel", job_id, an_actor())


@pytest.mark.parametrize("before", ["completed", "cancelled"])
def test_nothing_follows_an_end(log: JobLog, backend: Backend, before: str) -> None:
    """S12."""
    job_id = in_status(log, before)
    told = topics(log, job_id)
    for action in ACTIONS:
        with pytest.raises(StateError):
            log.command(action, job_id, an_actor())
    backend.clock.move(86_400)

    assert (claim(log), log.expire("reaper"), log.promote()) == ([], [], (0, None))
    assert topics(log, job_id) == told


def test_the_history_shows_who_did_what_and_when(log: JobLog, backend: Backend) -> None:
    """CTL-07."""
    job_id = submit(log)
    backend.clock.move(5)
    log.command("pause", job_id, an_actor("bob", "please-pause-the-import"))

    said = last(log, job_id)
    assert (said["actor"], said["request_id"], said["address"], said["text"]) == (
        "bob", "please-pause-the-import", "192.0.2.1", "because",
    )  # fmt: skip
    assert said["timestamp"] == log.now()


@pytest.mark.parametrize("action", ["", "delete", "Pause", "retry_now"])
def test_there_are_no_other_actions(log: JobLog, action: str) -> None:
    job_id = submit(log)

    with pytest.raises(InvalidFieldError, match="use one of pause, resume, cancel, retry"):
        log.command(action, job_id, an_actor())


def test_no_such_job(log: JobLog) -> None:
    with pytest.raises(JobNotFoundError):
        log.command("pause", uuid4(), an_actor())


@pytest.mark.parametrize("request_id", [None, "the-same-request-as-ever"])
def test_for_another_tenant_there_is_no_such_job(log: JobLog, request_id: str | None) -> None:
    """REC-13: also where the request id was used by its own tenant."""
    job_id = submit(log, tenant="acme")
    log.command("pause", job_id, an_actor(request=request_id or ""), tenant="acme")

    for action in ("pause", "resume"):
        with pytest.raises(JobNotFoundError):
            log.command(action, job_id, an_actor(request=request_id or ""), tenant="default")
    assert log.row(job_id)["status"] == "paused"


def test_a_refused_request_id_tells_nothing_of_whose_it_is(log: JobLog) -> None:
    theirs = submit(log, tenant="acme")
    log.command("pause", theirs, an_actor("carol", "the-same-request-as-ever"))
    mine = submit(log)

    with pytest.raises(StateError) as refused:
        log.command("pause", mine, an_actor("ada", "the-same-request-as-ever"))

    assert str(theirs) not in str(refused.value)
    assert "carol" not in str(refused.value)


def test_a_command_for_a_version_is_refused_once_the_job_has_moved_on(log: JobLog) -> None:
    job_id = submit(log)

    with pytest.raises(VersionConflictError, match="no longer at version 2"):
        log.command("pause", job_id, an_actor(), if_version=2)
    assert log.command("pause", job_id, an_actor(), if_version=1).version == 2
    with pytest.raises(VersionConflictError):
        log.command("resume", job_id, an_actor(), if_version=1)
    assert status(log, job_id) == ("paused", "operator")


def test_a_right_that_was_withdrawn_meanwhile_counts(log: JobLog) -> None:
    """CTL-07: asked inside, right before the append."""
    job_id = submit(log)
    asked: list[str] = []

    def may() -> bool:
        asked.append(log.row(job_id)["status"])
        return False

    with pytest.raises(ForbiddenError, match="ada may not cancel"):
        log.command("cancel", job_id, an_actor(request="r"), may=may)

    assert asked == ["queued"]
    assert topics(log, job_id) == ["submitted"]
    assert log.store.receipt(an_actor(request="r").request_id) is None
    assert log.command("cancel", job_id, an_actor(request="r"), may=lambda: True).status == "cancelled"


@pytest.mark.parametrize("before", ["queued", "running"])
def test_a_cancel_may_ask_to_remove_what_was_created(log: JobLog, before: str) -> None:
    """REC-14: stored, so that it survives a restart."""
    job_id = in_status(log, before)
    log.command("cancel", job_id, an_actor(), cleanup=True)

    assert log.job(job_id).cleanup is True


@pytest.mark.parametrize("actor", ["", "x" * 201, "a\nb", "a\0"])
def test_whoever_commands_has_a_name(log: JobLog, actor: str) -> None:
    job_id = submit(log)

    with pytest.raises(InputError, match="actor"):
        log.command("pause", job_id, an_actor(actor))
