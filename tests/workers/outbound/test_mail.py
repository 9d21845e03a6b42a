"""OPS-8 for mail: recipients of their own, one Message-ID, receipts without the letter, nothing lost and nothing in the log."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from email import message_from_bytes
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from joblog import JobLog
from joblog.domain.errors import InputError, InvalidFieldError, KeyConflictError
from joblog.domain.job import Actor, Job
from joblog.domain.retry import RetryPolicy
from joblog.eventstore import letters
from joblog.eventstore.gates import GateAnswer, GateEntry, GateLimits
from joblog.workers.commands import gating
from joblog.workers.operations import mail_send
from joblog.workers.outbound.letter import Letter
from joblog.workers.registry import Jobs
from tests.acceptance import workers
from tests.acceptance.run_worker import LEASES
from tests.patience import until
from tests.workers.outbound import servers
from tests.workers.outbound.mail_server import Mailbox, mail_server
from tests.workers.outbound.test_canary import contents
from tests.workers.outbound.working import run_all

ADA, BOB, EVE = "ada@example.org", "bob@example.org", "eve@example.org"
LETTER = Letter((ADA, BOB, EVE), "c4n4ry-subject", "c4n4ry-text")
SOON = RetryPolicy(first_seconds=0, retries=2)


@pytest.fixture
def log(database_url: str) -> Iterator[JobLog]:
    with JobLog.open(database_url) as log:
        yield log


def settings(box: Mailbox) -> dict[str, str]:
    return {"JOBLOG_SMTP_URL": f"smtp://127.0.0.1:{box.port}", "JOBLOG_SMTP_FROM": "log@example.com"}


async def mailed(log: JobLog, box: Mailbox, *ids: UUID) -> list[str]:
    """Run these jobs to their end, beside the server."""
    jobs = Jobs()
    mail_send.register(jobs, settings(box))
    statuses = await asyncio.to_thread(run_all, log, jobs, {str(one): one for one in ids})
    return [statuses[str(one)] for one in ids]


def row_of(log: JobLog, job_id: UUID) -> Any:
    return letters.find(log.store, log.job(job_id).args["letter"])


def test_each_recipient_gets_it_and_the_letter_is_forgotten(log: JobLog, database_url: str) -> None:
    """OPS-8a, SEC-11: the receipts stay, without address, subject or text."""

    async def scene() -> None:
        job_id = mail_send.submit(log, LETTER, key="welcome-7").job_id
        assert row_of(log, job_id) is not None
        async with mail_server() as box:
            assert await mailed(log, box, job_id) == ["completed"]
            ids = {message_from_bytes(data)["Message-ID"] for _, data in box.accepted}
            assert sorted(recipient for recipient, _ in box.accepted) == [ADA, BOB, EVE]
            assert len(ids) == 1
        assert log.job(job_id).result == {"accepted": 3, "refused": 0}
        units = log.store.unit_states(job_id, prefix="recipients:")
        assert [unit for unit in units if unit.endswith(":sent")] == [f"recipients:{n}:sent" for n in range(3)]
        assert row_of(log, job_id) is None

    servers.run(scene())
    stored = contents(log, database_url)
    for private in (b"c4n4ry", b"example.org"):
        assert private not in stored


def test_a_recipient_that_is_refused_for_good_does_not_stop_the_others(log: JobLog) -> None:
    async def scene() -> None:
        job_id = mail_send.submit(log, LETTER).job_id
        async with mail_server(by_recipient={BOB: "550 no such user bob@example.org"}) as box:
            assert await mailed(log, box, job_id) == ["completed"]
            assert sorted(recipient for recipient, _ in box.accepted) == [ADA, EVE]
        job = log.job(job_id)
        assert (job.result, job.outcome, job.skipped) == ({"accepted": 2, "refused": 1}, "with-warnings", 1)
        assert row_of(log, job_id) is not None  # kept: the recipient may be tried again by hand
        states = b"".join(event.state for event in log.store.read(job_id))
        assert b"smtp-550" in states
        assert b"bob@" not in states

    servers.run(scene())


def test_no_recipient_at_all_is_a_failure(log: JobLog) -> None:
    async def scene() -> None:
        job_id = mail_send.submit(log, Letter((ADA,), "s", "t")).job_id
        async with mail_server({"RCPT": "550 no"}) as box:
            assert await mailed(log, box, job_id) == ["failed"]
        assert log.job(job_id).reason == "all-refused"

    servers.run(scene())


def test_a_temporary_reply_is_tried_again_until_the_attempts_are_spent(log: JobLog) -> None:
    async def scene() -> None:
        job_id = mail_send.submit(log, Letter((ADA,), "s", "t"), retry=SOON).job_id
        async with mail_server({".": "451 later"}) as box:
            assert await mailed(log, box, job_id) == ["paused"]
            assert (box.connections, box.accepted) == (3, [])
        assert log.job(job_id).reason == "exhausted-provider"
        assert row_of(log, job_id) is not None

    servers.run(scene())


def test_the_same_key_is_the_same_mail_and_another_text_a_conflict(log: JobLog) -> None:
    async def scene() -> None:
        first = mail_send.submit(log, LETTER, key="k")
        async with mail_server() as box:
            await mailed(log, box, first.job_id)
            again = mail_send.submit(log, LETTER, key="k")
            assert (again.job_id, again.created) == (first.job_id, False)
            with pytest.raises(KeyConflictError):
                mail_send.submit(log, Letter((ADA,), "other", "t"), key="k")
            await mailed(log, box, first.job_id)
            assert len(box.accepted) == 3
        assert row_of(log, first.job_id) is None

    servers.run(scene())


def test_mail_of_a_change_is_sent_if_it_commits_and_only_then(log: JobLog, database_url: str) -> None:
    """OPS-8c, OPS-8d."""
    engine = sa.create_engine(database_url)

    async def scene() -> None:
        async with mail_server() as box:
            with engine.connect() as connection:
                lost = mail_send.submit_in(log, connection, LETTER, key="lost")
                connection.rollback()
                kept = mail_send.submit_in(log, connection, Letter((ADA,), "s", "t"), key="kept")
                connection.commit()
            engine.dispose()
            log.drain_outbox()
            assert await mailed(log, box, kept) == ["completed"]
            assert [recipient for recipient, _ in box.accepted] == [ADA]
        assert log.store.job(lost) is None

    servers.run(scene())


def test_without_settings_the_job_waits_for_an_operator(log: JobLog) -> None:
    jobs = Jobs()
    mail_send.register(jobs, {})
    job_id = mail_send.submit(log, LETTER).job_id

    assert run_all(log, jobs, {"mail": job_id}) == {"mail": "paused"}
    assert log.job(job_id).reason == "mail-not-set-up"


def test_a_letter_that_was_changed_or_is_gone_is_not_sent(log: JobLog) -> None:
    async def scene() -> None:
        changed, gone = (mail_send.submit(log, LETTER, key=key).job_id for key in "ab")
        for job_id, other in ((changed, Letter((ADA,), "forged", "t").content), (gone, None)):
            letter_id = log.job(job_id).args["letter"]
            letters.remove(log.store, letter_id)
            if other is not None:
                letters.put(log.store, letter_id, "", other)
        async with mail_server() as box:
            assert await mailed(log, box, changed, gone) == ["failed", "paused"]
            assert box.connections == 0

    servers.run(scene())


def test_a_bad_letter_is_refused_before_anything_is_kept(log: JobLog) -> None:
    with pytest.raises(InvalidFieldError):
        mail_send.submit(log, Letter((ADA,), "a\nBcc: eve@example.org", "t"))

    assert log.store.head() == 0


def test_killed_between_the_acceptance_and_the_receipt_it_is_sent_twice_under_one_id_and_never_a_third_time(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-8T."""

    async def scene(log: JobLog) -> None:
        async with mail_server() as box:
            for name, value in settings(box).items():
                monkeypatch.setenv(name, value)
            job_id = mail_send.submit(log, Letter((ADA,), "s", "t"), key="k").job_id

            assert await asyncio.to_thread(workers.dies, database_url, "unit.after_effect")
            assert len(box.accepted) == 1
            await asyncio.to_thread(finished, log, job_id, database_url)
            mail_send.submit(log, Letter((ADA,), "s", "t"), key="k")
            await asyncio.to_thread(finished, log, job_id, database_url)

        ids = [message_from_bytes(data)["Message-ID"] for _, data in box.accepted]
        assert len(ids) == 2
        assert len(set(ids)) == 1
        assert log.job(job_id).status == "completed"

    with JobLog.open(database_url, leases=LEASES) as log:
        servers.run(scene(log))


def finished(log: JobLog, job_id: UUID, url: str) -> None:
    with workers.working(url):
        until(lambda: log.row(job_id)["status"] == "completed")


# -- behind a gate ---------------------------------------------------------------------------------------------------


def test_rty_09_an_attempt_is_in_the_log_before_the_mail_leaves(log: JobLog) -> None:
    async def scene() -> None:
        job_id = mail_send.submit(log, Letter((ADA,), "s", "t")).job_id
        async with mail_server() as box:
            await mailed(log, box, job_id)
        topics = [event.topic.removeprefix("joblog.job.") for event in log.store.read(job_id)]
        assert topics.index("unit-attempted") < topics.index("unit-completed")
        assert log.job(job_id).gate == "mail"

    servers.run(scene())


def test_mail_waits_behind_its_gate_and_passes_it_once_for_each_recipient(log: JobLog) -> None:
    gating.close(log, "mail", Actor("ada", "close-the-gate-of-mail-01"), log.now() + timedelta(hours=1))
    gating.limit(log, "mail", Actor("ada", "limit-the-gate-of-mail-01"), GateLimits(slots=1))

    async def scene() -> None:
        job_id = mail_send.submit(log, LETTER).job_id
        assert log.claim("w") == []  # no worker is bound by it
        gating.open_(log, "mail", Actor("ada", "open-the-gate-of-mail-001"))
        entered, enter = [], log.store.enter_gate

        def counted(entry: GateEntry) -> GateAnswer:
            answer = enter(entry)
            entered.append(answer.why)
            return answer

        log.store.enter_gate = counted  # type: ignore[method-assign]
        async with mail_server() as box:
            assert await mailed(log, box, job_id) == ["completed"]
            assert len(box.accepted) == 3
        assert entered == [""] * 3

    servers.run(scene())


# -- recipients by name ----------------------------------------------------------------------------------------------


async def mailed_by_name(log: JobLog, box: Mailbox, letter: Letter, directory: Callable[[str], str | None]) -> Job:
    jobs = Jobs()
    mail_send.register(jobs, settings(box), directory)
    job_id = mail_send.submit(log, letter, retry=SOON).job_id
    await asyncio.to_thread(run_all, log, jobs, {"mail": job_id})
    return log.job(job_id)


@pytest.mark.parametrize("known", ["", None], ids=["no address or disabled", "deleted or revoked"])
def test_rty_14_without_an_address_it_is_tried_again_and_to_the_deleted_nothing_is_sent(
    log: JobLog, known: str | None
) -> None:
    asked: list[str] = []

    def directory(name: str) -> str | None:
        asked.append(name)
        return {"ada": ADA, "bob": known}[name]

    async def scene() -> Job:
        async with mail_server() as box:
            job = await mailed_by_name(log, box, Letter(("user:ada", "user:bob"), "s", "t"), directory)
            assert [recipient for recipient, _ in box.accepted] == [ADA]
            return job

    job = servers.run(scene())
    if known is None:
        assert (job.status, job.result) == ("completed", {"accepted": 1, "refused": 0, "cancelled": 1})
        assert asked == ["ada", "bob"]
        assert row_of(log, job.id) is None  # nobody is left who may have it
    else:
        assert (job.status, job.reason) == ("paused", "exhausted-provider")
        assert asked == ["ada", *["bob"] * 3]  # within the limit
        assert row_of(log, job.id) is not None


def test_an_address_that_is_there_by_the_next_attempt_gets_it_alone(log: JobLog) -> None:
    answers = iter(["", BOB])

    async def scene() -> None:
        async with mail_server() as box:
            job = await mailed_by_name(log, box, Letter((ADA, "user:bob"), "s", "t"), lambda _: next(answers))
            assert (job.status, job.result) == ("completed", {"accepted": 2, "refused": 0})
            heads = [(recipient, message_from_bytes(data)["To"]) for recipient, data in box.accepted]
        assert heads == [(ADA, ADA), (BOB, BOB)]

    servers.run(scene())


def test_names_without_a_directory_wait_for_an_operator_and_bad_ones_are_refused(log: JobLog) -> None:
    async def scene() -> None:
        job_id = mail_send.submit(log, Letter(("user:ada",), "s", "t")).job_id
        async with mail_server() as box:
            assert await mailed(log, box, job_id) == ["paused"]
            assert box.connections == 0
        assert log.job(job_id).reason == "mail-not-set-up"

    servers.run(scene())
    for name in ("user:", "user:a\nb", "user:a@b", "team:a"):
        with pytest.raises(InputError):
            mail_send.submit(log, Letter((name,), "s", "t"))
