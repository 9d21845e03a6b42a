"""What an author declares of a provider: the limits of its gate, and how its headers are to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, get_args

from ..domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from ..eventstore.gates import GateLimits
    from .outbound.retry_after import ResetForm


class Provider(NamedTuple):
    """Made by ``Jobs.gate``."""

    limits: GateLimits | None = None
    one_by_one: bool = False  #: the spacing counts from the end of a request
    reset_form: ResetForm = ""


def checked_form(form: ResetForm) -> ResetForm:
    """Refuse what is no form of a reset header."""
    from .outbound.retry_after import ResetForm as Forms

    known = get_args(Forms)
    if form not in known:
        raise InvalidFieldError("reset_form", f"{form!r} is none", f"give one of {', '.join(filter(None, known))}")
    return form
