"""What the end of a request means for the job: done, try again, stop, or wait for an operator (RTY-01…14).

By structured fields only: a status, a class of exception, a reply code.  Never by what a provider's text says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import Fatal, NeedsOperator, OperationError, ProviderWaits, RetryLater
from .retry_after import READ_ON, ResetForm, Wait, parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_RETRYABLE: Final = frozenset({408, 425, 429})
_FINAL_5XX: Final = frozenset({501, 505, 511})  # not implemented, not spoken, log in to the network first
_UNAUTHORIZED: Final = frozenset({401, 407})
_FIRST_5XX, _LAST_STATUS = 500, 599
_SMTP_TEMPORARY, _SMTP_FINAL = range(400, 500), range(500, 600)
_SMTP_AUTHENTICATION: Final = frozenset({530, 534, 535, 538})


def is_retryable(status: int) -> bool:
    """Whether the same request may do better later."""
    return status in _RETRYABLE or (_FIRST_5XX <= status <= _LAST_STATUS and status not in _FINAL_5XX)


def hint(headers: Iterable[tuple[str, str]], status: int, now: datetime, *, reset_form: ResetForm = "") -> Wait | None:
    """When the provider wants the next request, whatever becomes of this one.

    A transient status outside the list is read as a 500, as RFC 9110 15 has a client treat one that it does not know.
    """
    read = status if status in READ_ON or not is_retryable(status) else _FIRST_5XX
    return parse(headers, read, now, reset_form=reset_form)


def of_status(
    status: int, wait: Wait | None, now: datetime, *, excerpt: str = "", reference: str = ""
) -> OperationError:
    """The verdict on an answer that is no success.

    *wait*: see ``hint``; *excerpt*: scrubbed; *reference*: of the credential that was sent.
    """
    code = f"http-{status}"
    if status in _UNAUTHORIZED:
        return NeedsOperator("credential-rejected", f"{reference or 'no credential'} was not accepted ({status})")
    if is_retryable(status):
        return retry_later(code, excerpt, wait, now)
    return Fatal(code, excerpt)


def retry_later(code: str, text: str, wait: Wait | None, now: datetime) -> RetryLater:
    """Try again by our own back-off, or when the provider allows it."""
    if wait is None:
        return RetryLater(code, text)
    until = wait.until(now)
    return ProviderWaits(code, text, at=until, origin=wait.origin, gate="", lengthens=not wait.authoritative)


def network(code: str, text: str = "") -> RetryLater:
    """DNS, connect, reset, a deadline: the peer never said no."""
    return RetryLater(code, text, category="network")


def of_reply(code: int, *, reference: str = "") -> OperationError:
    """The verdict on an SMTP reply that is no success: 4xx is temporary, 5xx is final, anything else is no SMTP.

    A refused login is final for the credential, not for the mail.
    """
    if code in _SMTP_TEMPORARY:
        return RetryLater(f"smtp-{code}")
    if code in _SMTP_AUTHENTICATION:
        return NeedsOperator("credential-rejected", f"{reference or 'no credential'} was not accepted ({code})")
    return Fatal(f"smtp-{code}" if code in _SMTP_FINAL else "smtp-protocol")
