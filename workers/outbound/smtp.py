"""One mail to one recipient over SMTP: bounded, encrypted, and judged by reply codes alone (RTY-13, SEC-09)."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ..errors import Fatal, NeedsOperator, OperationError
from . import verdict
from .letter import check_address
from .secrets import Secret, Secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

URL: Final = "JOBLOG_SMTP_URL"
USER: Final = "JOBLOG_SMTP_USER"
PASSWORD: Final = "JOBLOG_SMTP_PASSWORD"  # noqa: S105 - the name of a setting, which holds a reference
SENDER: Final = "JOBLOG_SMTP_FROM"
CA_FILE: Final = "JOBLOG_OUTBOUND_CA"
_TOTAL_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 20.0
_GOODBYE_SECONDS: Final = 1.0
_PORTS: Final = {"smtp": 587, "smtps": 465}
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Server:
    """Where mail is handed over: by the operator's settings, never by a job's arguments."""

    host: str
    port: int
    is_tls: bool  #: from the first byte (smtps)
    must_upgrade: bool  #: STARTTLS before anything else is said
    sender: str
    user: str = ""
    password: str = ""  #: a reference
    ca_file: Path | None = None
    seconds: float = _TOTAL_SECONDS

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Server:
        """Read ``JOBLOG_SMTP_*``.  Without TLS only to this host.

        Raises:
            NeedsOperator: not set, or not usable.
        """
        try:
            url = urlsplit(environ.get(URL, ""))
            host, port = url.hostname or "", url.port or _PORTS.get(url.scheme, 0)
        except ValueError:
            raise _not_set_up(f"{URL} is no URL") from None
        if url.scheme not in _PORTS or not host or url.username or url.path.strip("/") or url.query:
            raise _not_set_up(f"{URL} must be smtp://HOST:PORT (STARTTLS) or smtps://HOST:PORT")
        sender, user, password = (environ.get(name, "") for name in (SENDER, USER, PASSWORD))
        if bool(user) != bool(password):
            raise _not_set_up(f"set both {USER} and {PASSWORD}, or none")
        is_here = host in _HERE and not user
        is_tls = url.scheme == "smtps"
        ca_file = Path(environ[CA_FILE]) if environ.get(CA_FILE) else None
        return cls(host, port, is_tls, not is_tls and not is_here, sender, user, password, ca_file)

    def sender_of(self, named: str) -> str:
        """Who it is from.

        Raises:
            NeedsOperator: neither the letter nor the settings say.
        """
        if not (sender := named or self.sender):
            raise _not_set_up(f"set {SENDER}, or name a sender in the letter")
        check_address(sender, "sender")
        return sender


def _not_set_up(text: str) -> NeedsOperator:
    return NeedsOperator("mail-not-set-up", text)


async def deliver(server: Server, secrets: Secrets, sender: str, recipient: str, message: bytes) -> int:
    """Hand *message* over for *recipient*; returns the reply code of the acceptance.

    Raises:
        RetryLater: a temporary reply, or the network. NeedsOperator: login or TLS. Fatal: refused for good.
    """
    import aiosmtplib

    password = secrets.resolve(server.password) if server.password else None
    try:
        async with asyncio.timeout(server.seconds):
            return await _conversation(server, password, sender, recipient, message)
    except aiosmtplib.SMTPException as error:
        raise _judged(error, server.password) from None
    except TimeoutError:
        raise verdict.network("smtp-timeout") from None
    except ssl.SSLError as error:
        is_cut = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        raise verdict.network("smtp-connection-lost") if is_cut else _tls_refused() from None
    except OSError:
        raise verdict.network("smtp-connection-lost") from None


async def _conversation(server: Server, password: Secret | None, sender: str, recipient: str, message: bytes) -> int:
    import aiosmtplib

    tls: ssl.SSLContext | None = None
    if server.is_tls or server.must_upgrade:
        from .transport import tls_context

        tls = await asyncio.get_running_loop().run_in_executor(None, tls_context, server.ca_file)
    smtp = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        use_tls=server.is_tls,
        start_tls=server.must_upgrade,
        tls_context=tls,
        timeout=_STEP_SECONDS,
        local_hostname=sender.partition("@")[2],
    )
    try:
        await smtp.connect()
        if password is not None:
            await smtp.login(server.user, password.reveal())
        await smtp.mail(sender)
        await smtp.rcpt(recipient)
        accepted = await smtp.data(message)
        # It is theirs now: what happens to the goodbye changes nothing (RTY-10).
        with contextlib.suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
            await smtp.quit(timeout=_GOODBYE_SECONDS)
        return int(accepted.code)
    finally:
        smtp.close()


def _judged(error: Any, reference: str) -> OperationError:
    """By class and code; the server's text may name addresses, and is never repeated."""
    import aiosmtplib

    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        found = verdict.of_reply(error.code, reference=reference)
        return NeedsOperator("credential-rejected", reference) if isinstance(found, Fatal) else found
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return verdict.of_reply(error.code, reference=reference)
    if isinstance(error, aiosmtplib.SMTPTimeoutError):
        return verdict.network("smtp-timeout")
    if isinstance(error, aiosmtplib.SMTPConnectError):
        cause = error.__cause__
        is_bad = isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        return _tls_refused() if is_bad else verdict.network("smtp-connect-failed")
    if isinstance(error, aiosmtplib.SMTPServerDisconnected):
        return verdict.network("smtp-connection-lost")
    return NeedsOperator("mail-not-set-up", "the server offers no STARTTLS, or no login that is usable")


def _tls_refused() -> NeedsOperator:
    return NeedsOperator("tls-refused", "the mail server's certificate is not valid, or there is no common TLS")
