"""``mail.send``: one letter, each recipient a unit of its own with its own result.

It passes the gate ``mail``, which operators bound with ``joblog gates limit``; so an attempt is in the log before its request.
At least once: between the server's acceptance and our receipt a crash sends it again, under the same Message-ID.  The
letter itself is not in the log: a table of its own has it until every recipient's server has accepted it.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid5

import msgspec

from ...domain.spec import JobSpec
from ..errors import Fatal, NeedsOperator, RetryLater

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    import sqlalchemy as sa

    from ...eventstore.letters import LetterRow
    from ..commands.answers import Submitted
    from ..commands.log import JobLog
    from ..outbound.letter import Letter
    from ..registry import Jobs
    from ..run import Run

    Directory = Callable[[str], str | None]

KIND: Final = "mail.send"
PROVIDER: Final = "mail"  #: of the gate
_ACCEPTED: Final = "accepted"
_CANCELLED: Final = "cancelled"


class MailSend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the log knows of a letter; made by ``submit``."""

    letter: str
    digest: str
    recipients: int


# -- handing in ------------------------------------------------------------------------------------------------------


def submit(log: JobLog, letter: Letter, *, key: str = "", tenant: str = "default", **options: Any) -> Submitted:
    """Keep the letter and hand its job in; the same key again is the same mail, sent once.

    Raises:
        InvalidFieldError: an address or subject that can't be mailed.
        KeyConflictError: the key already stands for another letter.
    """
    from ...eventstore import letters

    spec = _spec(log, letter, key, tenant, options)
    letters.put(log.store, spec.args["letter"], spec.args["digest"], letter.content)
    answer = log.submit(spec)
    if not answer.created and log.job(answer.job_id).status == "completed":
        letters.remove(log.store, spec.args["letter"])  # sent before: nothing of it is kept again
    return answer


def submit_in(
    log: JobLog, connection: sa.Connection, letter: Letter, *, key: str = "", tenant: str = "default", **options: Any
) -> UUID:
    """As ``submit``, inside the caller's own transaction in the log's database: mailed if it commits, and only then."""
    from ...eventstore import letters

    spec = _spec(log, letter, key, tenant, options)
    letters.put_in(connection, log.store, spec.args["letter"], spec.args["digest"], letter.content)
    return log.submit_in(connection, spec)


def _spec(log: JobLog, letter: Letter, key: str, tenant: str, options: dict[str, Any]) -> JobSpec:
    digest = letter.checked().digest
    key = key or log.ids.next()
    job_id = JobSpec(KIND, {}, key=key, tenant=tenant).job_id
    args = {"letter": str(uuid5(job_id, digest)), "digest": digest, "recipients": len(letter.to)}
    return JobSpec(KIND, args, key=key, tenant=tenant, **{"gate": PROVIDER, **options})


# -- sending ---------------------------------------------------------------------------------------------------------


async def mail_send(
    run: Run, args: MailSend, settings: Mapping[str, str], directory: Directory | None = None
) -> dict[str, int]:
    """Send to each recipient; one that is refused for good is passed over with its code."""
    async for item in run.items("recipients", range(args.recipients)):
        sending: Any = partial(_send, run, args, item.value, settings, directory)
        await item.once("sent", sending)
    accepted, cancelled = run.total(_ACCEPTED), run.total(_CANCELLED)
    if not accepted + cancelled:
        raise Fatal("all-refused", "no recipient's server took it")
    if accepted + cancelled == args.recipients:
        from ...eventstore.letters import remove

        await _in_thread(partial(remove, run.store, args.letter))
    made = {_ACCEPTED: accepted, "refused": args.recipients - accepted - cancelled}
    return {**made, _CANCELLED: cancelled} if cancelled else made


async def _send(
    run: Run,
    args: MailSend,
    index: int,
    settings: Mapping[str, str],
    directory: Directory | None,
) -> dict[str, Any]:
    """One recipient; the evidence says no address and nothing that the server said."""
    from ...eventstore.clock import moment
    from ...eventstore.letters import find
    from ..outbound.letter import Letter
    from ..outbound.secrets import Secrets
    from ..outbound.smtp import Server, deliver

    server = Server.of(settings)
    row: LetterRow | None = await _in_thread(partial(find, run.store, args.letter))
    if row is None:
        raise NeedsOperator("letter-missing", "its text is not kept any more; submit it again")
    letter = msgspec.json.decode(row.content, type=Letter)
    if letter.digest != args.digest:
        raise Fatal("letter-changed", "it is not what was handed in")
    sender = server.sender_of(letter.sender)
    async with run.gate(PROVIDER):  # its wait is over before the recipient is looked up: what counts is now
        recipient = await _address(letter.to[index], directory)
        if recipient is None:
            run.tally(_CANCELLED)
            return {"code": "recipient-gone"}
        message = letter.rendered(args.letter, sender, moment(row.created_at), recipient)
        code = await deliver(server, Secrets(settings, run.store), sender, recipient, message)
    run.tally(_ACCEPTED)
    return {"code": code, "message_id": args.letter}


async def _address(recipient: str, directory: Directory | None) -> str | None:
    """Where it goes now; None if nothing may be sent to them any more (RTY-14).

    Raises:
        RetryLater: there is no address now. NeedsOperator: nobody knows names here.
    """
    from ..outbound.letter import NAMED, check_address, is_named

    if not is_named(recipient):
        return recipient
    if directory is None:
        raise NeedsOperator("mail-not-set-up", "recipients are named, and no directory is given to mail_send.register")
    address: str | None = await _in_thread(partial(directory, recipient.removeprefix(NAMED)))
    if address == "":
        raise RetryLater("recipient-unavailable", "no address, or the account is disabled")
    if address is not None:
        check_address(address, "to")
    return address


async def _in_thread(function: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, function)


def register(jobs: Jobs, environ: Mapping[str, str] = os.environ, directory: Directory | None = None) -> None:
    """Add ``mail.send``; *environ* has the operator's ``JOBLOG_SMTP_*``.

    *directory* gives the address of ``user:NAME`` as it is now: "" while there is none or the account is disabled, which
    is tried again; None once the recipient is deleted or may not have it, and then nothing is sent.  Called in a thread.
    """

    async def operation(run: Run, args: MailSend) -> dict[str, int]:
        return await mail_send(run, args, environ, directory)

    jobs.job(KIND, gate=PROVIDER, on_unit_failure="skip", skip_limit=100)(operation)
