"""Secret values that this process has resolved: they go into no event, no result and no text (SEC-01, SEC-03).

The log can't be redacted afterwards, so this is checked before anything is written: a payload with one of them is refused,
a failure's text has it replaced, because a failure must always be storable.  Found are the value itself and the forms in
which code and providers usually repeat one.  What can't be told from ordinary text (below 8 characters) is not looked for.
"""

from __future__ import annotations

import base64
import json
from typing import Final
from urllib.parse import quote, quote_plus

from .errors import SecretInInputError

SHORTEST: Final = 8
_SHORTEST_LINE: Final = 16  # of a value with many lines, such as a private key
_OFFSETS: Final = ((0, 0), (1, 2), (2, 3))  # bytes in front, and how many characters of base64 they spoil


class _Known:
    """What is looked for.  Never changed, only replaced whole: other threads read it meanwhile."""

    def __init__(self, forms: dict[str, str]) -> None:
        self.forms = dict(sorted(forms.items(), key=lambda item: -len(item[0])))  #: form → reference, longest first
        self.encoded = [(each, whose) for form, whose in self.forms.items() for each in _in_json(form)]


def withhold(reference: str, value: str) -> None:
    """Keep *value* out of everything that is written; *reference* is what may be said instead."""
    global _known  # noqa: PLW0603 - of the process, as the values are
    lines = [line for line in value.splitlines() if len(line) >= _SHORTEST_LINE] if "\n" in value else []
    new = [secret for secret in (value, *lines) if len(secret) >= SHORTEST and secret not in _known.forms]
    if not new:
        return
    for form in (form for secret in new for form in _forms_of(secret)):
        _all.setdefault(form, reference)
    while len(_known.forms) < len(_all):  # another thread may have added its own, or have put an older whole in place
        _known = _Known(dict(_all))


def forget() -> None:
    """Look for nothing any more: for tests."""
    global _known  # noqa: PLW0603 - as above
    _all.clear()
    _known = _Known({})


def scrub(text: str) -> str:
    """*text* with each value replaced by its reference."""
    for form, reference in _known.forms.items():
        if form in text:
            text = text.replace(form, f"[{reference}]")
    return text


def refuse(encoded: bytes, field: str) -> bytes:
    """Encoded JSON, unchanged.

    Raises:
        SecretInInputError: a known value stands in it.
    """
    for form, reference in _known.encoded:
        if form in encoded:
            raise SecretInInputError(field, f"the value of {reference}", "keep the reference, never the value")
    return encoded


def _forms_of(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogatepass")
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    for percent in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        forms |= {percent, _lower_escapes(percent)}
    forms |= {raw.hex(), raw.hex().upper()}
    for before, spoiled in _OFFSETS:
        whole = (before + len(raw)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(b"\0" * before + raw).decode()[spoiled:whole])
    forms |= {"\0".join(value), "\\u0000".join(value)}  # UTF-16, read byte by byte
    return forms


def _in_json(form: str) -> set[bytes]:
    return {each.encode("utf-8", "surrogatepass") for each in (form, json.dumps(form, ensure_ascii=False)[1:-1])}


def _lower_escapes(percent: str) -> str:
    first, *parts = percent.split("%")
    return first + "".join(f"%{part[:2].lower()}{part[2:]}" for part in parts)


_all: Final[dict[str, str]] = {}
_known = _Known({})
