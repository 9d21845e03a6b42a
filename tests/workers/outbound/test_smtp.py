"""RTY-13, SEC-09, SEC-12, TST-08, TST-09: one mail to real servers that misbehave."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default
from typing import Any

import msgspec
import pytest

from joblog.domain import withheld
from joblog.domain.errors import InvalidFieldError, TooLargeError
from joblog.workers.errors import Fatal, NeedsOperator, OperationError, RetryLater
from joblog.workers.outbound.letter import Letter
from joblog.workers.outbound.secrets import Secrets
from joblog.workers.outbound.smtp import Server, deliver
from tests.workers.outbound import servers
from tests.workers.outbound.authority import Authority
from tests.workers.outbound.mail_server import Mailbox, mail_server

CANARY = "c4n4ry-password"
ENVIRON = {"PW": CANARY}
MESSAGE = b"Subject: x\r\n\r\n.hidden dot\r\n"
RECIPIENT = "ada@example.org"


@pytest.fixture(autouse=True)
def _nothing_is_known_afterwards() -> Iterator[None]:
    yield
    withheld.forget()


def plain(box: Mailbox, **more: Any) -> Server:
    return Server("127.0.0.1", box.port, is_tls=False, must_upgrade=False, sender="log@example.com", **more)


async def outcome(server: Server) -> int | OperationError:
    try:
        return await deliver(server, Secrets(ENVIRON), "log@example.com", RECIPIENT, MESSAGE)
    except OperationError as error:
        return error


def sent(replies: dict[str, str] | None = None, *, seconds: float = 10.0) -> tuple[int | OperationError, Mailbox]:
    async def scene() -> tuple[int | OperationError, Mailbox]:
        async with mail_server(replies) as box:
            return await outcome(plain(box, seconds=seconds)), box

    return servers.run(scene())


def test_an_accepted_mail_is_the_message_as_it_was() -> None:
    result, box = sent()

    assert result == 250
    assert box.accepted == [(RECIPIENT, b"Subject: x\r\n\r\n..hidden dot")]
    assert box.commands[0] == "EHLO example.com"
    assert box.commands[-1] == "QUIT"


STEPS = ["greeting", "MAIL", "RCPT", "DATA", "."]


@pytest.mark.parametrize("verb", STEPS)
@pytest.mark.parametrize(
    ("reply", "kind", "code"),
    [
        ("451 later please", RetryLater, "smtp-451"),
        ("421 closing", RetryLater, "smtp-421"),
        ("550 no such user ada@example.org", Fatal, "smtp-550"),
        ("552 too big", Fatal, "smtp-552"),
        ("reset", RetryLater, ""),
        ("drop", RetryLater, ""),
        ("hello world", Fatal, "smtp-protocol"),
    ],
)
def test_each_reply_at_each_step(verb: str, reply: str, kind: type[OperationError], code: str) -> None:
    result, box = sent({verb: reply})

    assert type(result) is kind, result
    assert str(result).startswith(code)
    assert box.connections == 1
    assert box.accepted == []
    assert "ada@" not in str(result)
    assert "user" not in str(result)


@pytest.mark.parametrize("verb", ["EHLO", *STEPS])
@pytest.mark.parametrize("reply", ["silence", "drip"])
def test_the_total_deadline_ends_what_does_not_end(verb: str, reply: str) -> None:
    result, _ = sent({verb: reply}, seconds=0.15)

    # Endless lines of one reply may end at their bound, before the deadline.
    assert isinstance(result, RetryLater) or (reply == "drip" and isinstance(result, Fatal))


@pytest.mark.parametrize("reply", ["drop", "reset", "silence", "550 no"])
def test_a_goodbye_that_fails_does_not_undo_an_acceptance(reply: str) -> None:
    """RTY-10."""
    result, box = sent({"QUIT": reply})

    assert result == 250
    assert len(box.accepted) == 1


def test_a_port_that_nobody_listens_on_is_tried_again() -> None:
    async def scene() -> int | OperationError:
        async with mail_server() as box:
            pass
        return await outcome(plain(box))

    assert isinstance(servers.run(scene()), RetryLater)


# -- login and TLS -----------------------------------------------------------------------------------------------------


def encrypted(
    authority: Authority, *hosts: str, trusted: bool = True, replies: dict[str, str] | None = None
) -> tuple[Any, Mailbox]:
    async def scene() -> tuple[Any, Mailbox]:
        async with mail_server(replies, tls=authority.server(*hosts)) as box:
            server = Server(
                "localhost",
                box.port,
                is_tls=False,
                must_upgrade=True,
                sender="log@example.com",
                user="log",
                password="env:PW",  # noqa: S106 - a reference
                ca_file=authority.file if trusted else None,
            )
            return await outcome(server), box

    return servers.run(scene())


def test_the_login_goes_over_tls_only(authority: Authority) -> None:
    result, box = encrypted(authority, "localhost")

    assert result == 250
    assert box.was_encrypted
    login = next(line for line in box.commands if line.startswith("AUTH"))
    assert base64.b64decode(login.split()[-1]) == f"\0log\0{CANARY}".encode()
    assert box.commands.index("STARTTLS") < box.commands.index(login)


@pytest.mark.parametrize(("hosts", "trusted"), [(["localhost"], False), (["other.example.com"], True)])
def test_a_certificate_that_is_not_valid_stops_it(authority: Authority, hosts: list[str], trusted: bool) -> None:
    result, box = encrypted(authority, *hosts, trusted=trusted)

    assert isinstance(result, NeedsOperator)
    assert result.code == "tls-refused"
    assert not [line for line in box.commands if line.startswith(("AUTH", "MAIL"))]


def test_a_server_without_starttls_stops_it(authority: Authority) -> None:
    result, box = encrypted(authority, "localhost", replies={"EHLO": "250 mail.example.com"})

    assert isinstance(result, NeedsOperator)
    assert not [line for line in box.commands if line.startswith(("AUTH", "MAIL"))]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [("535 bad password c4n4ry-password", NeedsOperator), ("534 no", NeedsOperator), ("454 later", RetryLater)],
)
def test_a_refused_login(authority: Authority, reply: str, kind: type[OperationError]) -> None:
    result, box = encrypted(authority, "localhost", replies={"AUTH": reply})

    assert isinstance(result, kind)
    assert CANARY not in str(result)
    assert kind is RetryLater or "env:PW" in str(result)
    assert box.accepted == []


def test_a_missing_password_is_named_and_nothing_is_connected_to() -> None:
    async def scene() -> Mailbox:
        async with mail_server() as box:
            result = await outcome(plain(box, user="log", password="env:NOT_SET"))  # noqa: S106 - a reference
            assert isinstance(result, NeedsOperator)
            assert "env:NOT_SET" in str(result)
            return box

    assert servers.run(scene()).connections == 0


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_are_read_and_tls_is_the_rule() -> None:
    outside = {"JOBLOG_SMTP_URL": "smtp://mail.example.com", "JOBLOG_SMTP_FROM": "a@example.com"}

    assert Server.of(outside).must_upgrade
    assert Server.of(outside).port == 587
    assert Server.of({"JOBLOG_SMTP_URL": "smtps://mail.example.com:4650"}).is_tls
    assert not Server.of({"JOBLOG_SMTP_URL": "smtp://127.0.0.1:25"}).must_upgrade
    login = {"JOBLOG_SMTP_USER": "u", "JOBLOG_SMTP_PASSWORD": "env:PW"}
    assert Server.of({"JOBLOG_SMTP_URL": "smtp://127.0.0.1:25"} | login).must_upgrade


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"JOBLOG_SMTP_URL": "mail.example.com"},
        {"JOBLOG_SMTP_URL": "http://mail.example.com"},
        {"JOBLOG_SMTP_URL": "smtp://u:c4n4ry@mail.example.com"},
        {"JOBLOG_SMTP_URL": "smtp://mail.example.com:port"},
        {"JOBLOG_SMTP_URL": "smtp://mail.example.com", "JOBLOG_SMTP_USER": "u"},
    ],
)
def test_settings_that_are_not_usable_pause_the_job(environ: dict[str, str]) -> None:
    with pytest.raises(NeedsOperator) as refused:
        Server.of(environ)

    assert refused.value.code == "mail-not-set-up"
    assert "c4n4ry" not in str(refused.value)


# -- letters -----------------------------------------------------------------------------------------------------------

GOOD = Letter(("ada@example.org",), "Grüße", "Line\n.\nend", html="<p>ü</p>")


def test_a_letter_is_the_same_bytes_each_time_it_is_sent() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    first, again = (GOOD.rendered("l-1", "log@example.com", at) for _ in range(2))
    message = message_from_bytes(first, policy=default)

    assert first == again
    assert first.isascii()
    assert (message["Subject"], message["To"], message["Message-ID"]) == ("Grüße", RECIPIENT, "<l-1@example.com>")
    assert message.get_body(("html",)).get_content().strip() == "<p>ü</p>"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "a\r\nBcc: eve@example.org"},
        {"subject": "a\nb"},
        {"subject": "a\x00"},
        {"subject": "a\u2028b"},
        {"subject": "x" * 1000},
        {"to": ()},
        {"to": ("a@example.org", "a@example.org")},
        {"to": tuple(f"a{n}@example.org" for n in range(101))},
        {"to": ("ada@example.org\r\nRCPT TO:<eve@example.org>",)},
        {"to": ("Ada <ada@example.org>",)},
        {"to": ("ada@example.org, eve@example.org",)},
        {"to": ("ada",)},
        {"to": ("ada@",)},
        {"to": ("@example.org",)},
        {"to": ("a..b@example.org",)},
        {"to": ("ädä@example.org",)},
        {"to": ("a" * 250 + "@example.org",)},
        {"to": ('"a b"@example.org',)},
        {"to": ("ada@[127.0.0.1]",)},
        {"sender": "log@example.com>"},
        {"reply_to": "x\r\n"},
        {"text": "\x00"},
    ],
)
def test_what_could_inject_a_header_or_a_command_is_refused_when_handed_in(changes: dict[str, Any]) -> None:
    """SEC-12."""
    with pytest.raises(InvalidFieldError) as refused:
        msgspec.structs.replace(GOOD, **changes).checked()

    assert "eve@" not in str(refused.value)


def test_a_letter_over_its_bound_is_refused() -> None:
    with pytest.raises(TooLargeError):
        Letter(("ada@example.org",), "s", "x" * 16_000_000).checked()
