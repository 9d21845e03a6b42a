"""What the forms and links of the page send."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..http.types import Count, JobFilters, Text

_Key = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{20,64}$")]


class JobLinks(JobFilters, kw_only=True, forbid_unknown_fields=True):
    """Filters; an empty field of a form is none."""


class JobQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which part of a job's events and units."""

    events: Count = 0
    units: Annotated[str, Meta(max_length=500)] = ""


class CommandForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command from a button: under the key that the page was made with, so that two clicks are one command."""

    key: _Key
    reason: Text = ""
    version: Count | None = None


class SignIn(Struct, kw_only=True, forbid_unknown_fields=True):
    """The code of a link."""

    code: Annotated[str, Meta(max_length=100)] = ""
