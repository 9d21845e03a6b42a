"""A letter: what is mailed, checked before it is kept, and the same bytes each time it is sent."""

from __future__ import annotations

import hashlib
import re
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING, Final

import msgspec

from ...domain import storable
from ...domain.errors import InvalidFieldError, TooLargeError

if TYPE_CHECKING:
    from datetime import datetime

RECIPIENTS_LIMIT: Final = 100
SIZE_LIMIT: Final = 15 * 1024 * 1024
NAMED: Final = "user:"
_SUBJECT_LIMIT: Final = 998  # RFC 5322: a line
# Dot-atoms only: quoted local parts and address literals are where parsers disagree.
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
_ADDRESS_LIMIT: Final = 254
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_NOT_IN_TEXT: Final = re.compile(r"[\x00\ud800-\udfff]")
_POLICY: Final = SMTP.clone(cte_type="7bit")


class Letter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """*sender* may be left to the operator's setting.

    *to*: addresses, or ``user:NAME`` of somebody whose address the application's directory tells right before each send.
    """

    to: tuple[str, ...]
    subject: str
    text: str
    html: str = ""
    sender: str = ""
    reply_to: str = ""

    def checked(self) -> Letter:
        """The letter itself.

        Raises:
            InvalidFieldError: an address that is none, a line break in the subject (SEC-12). TooLargeError.
        """
        if not 1 <= len(self.to) <= RECIPIENTS_LIMIT:
            raise InvalidFieldError("to", f"{len(self.to)} recipients", f"give 1 to {RECIPIENTS_LIMIT}")
        if len(set(self.to)) != len(self.to):
            raise InvalidFieldError("to", "a recipient twice", "name each once")
        for index, address in enumerate(self.to):
            if is_named(address):
                storable.name(address, f"to[{index}]")
            else:
                check_address(address, f"to[{index}]")
        for name in ("sender", "reply_to"):
            if address := getattr(self, name):
                check_address(address, name)
        if _CONTROL.search(self.subject) or len(self.subject) > _SUBJECT_LIMIT:
            raise InvalidFieldError("subject", "a control character, or too long", "give one plain line")
        if _NOT_IN_TEXT.search(self.text + self.html):
            raise InvalidFieldError("text", "NUL or a lone surrogate", "give text")
        if len(self.content) > SIZE_LIMIT:
            raise TooLargeError("letter", f"{len(self.content):,} bytes", f"at most {SIZE_LIMIT:,} are sent")
        return self

    @property
    def content(self) -> bytes:
        """As it is kept."""
        return msgspec.json.encode(self)

    @property
    def digest(self) -> str:
        """Of the content."""
        return hashlib.sha256(self.content).hexdigest()

    def rendered(self, letter_id: str, sender: str, at: datetime, recipient: str = "") -> bytes:
        """The message for the wire; the same letter gives the same bytes and the same Message-ID.

        Where somebody is named, each gets it by *recipient* alone: addresses of others may change meanwhile.
        """
        to = recipient if any(map(is_named, self.to)) else ", ".join(self.to)
        message = EmailMessage(_POLICY)
        message["From"], message["To"], message["Subject"] = sender, to, self.subject
        if self.reply_to:
            message["Reply-To"] = self.reply_to
        message["Date"] = format_datetime(at)
        message["Message-ID"] = f"<{letter_id}@{sender.partition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(self.text)
        if self.html:
            message.add_alternative(self.html, subtype="html")
            _same_boundary(message, letter_id)
        return message.as_bytes()


def is_named(recipient: str) -> bool:
    """Whether a directory tells the address."""
    return recipient.startswith(NAMED) and "@" not in recipient and len(recipient) > len(NAMED)


def check_address(address: str, field: str) -> None:
    """Refuse what is no plain mail address; it is not repeated."""
    if len(address) > _ADDRESS_LIMIT or not _ADDRESS.fullmatch(address):
        raise InvalidFieldError(field, "no plain mail address", "give name@host in ASCII, without a display name")


def _same_boundary(message: EmailMessage, letter_id: str) -> None:
    message.set_boundary(f"=_{letter_id}")
