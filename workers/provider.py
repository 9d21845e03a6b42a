"""What an author declares of a provider: the limits of its gate, and how its headers are to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from ..eventstore.gates import GateLimits
    from .outbound.retry_after import ResetForm

RESET_FORMS: Final = ("", "delta", "epoch", "epoch-ms", "rfc3339")


class Provider(NamedTuple):
    """Made by ``Jobs.gate``."""

    limits: GateLimits | None = None
    one_by_one: bool = False  #: the spacing counts from the end of a request
    reset_form: ResetForm = ""


def checked_form(form: ResetForm) -> ResetForm:
    """Refuse what is no form of a reset header."""
    if form not in RESET_FORMS:
        raise InvalidFieldError("reset_form", f"{form!r} is none", f"give one of {', '.join(RESET_FORMS[1:])}")
    return form
