"""SEC-01, SEC-03: a known secret value is found in every form in which code usually repeats it."""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.domain import withheld
from joblog.domain.errors import SecretInInputError

VALUE = 'c4n4ry/"sécret"+\\1'
FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "JSON": json.dumps,
    "JSON in UTF-8": lambda value: json.dumps(value, ensure_ascii=False),
    "percent": lambda value: quote(value, safe=""),
    "percent of a path": quote,
    "percent of a form": quote_plus,
    "percent in lower case": lambda value: re.sub("%..", lambda each: each[0].lower(), quote(value, safe="")),
    "hex": lambda value: value.encode().hex(),
    "HEX": lambda value: value.encode().hex().upper(),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 behind one": lambda value: base64.b64encode(b"u" + value.encode()).decode(),
    "base64 behind two": lambda value: base64.b64encode(b"u:" + value.encode()).decode(),
    "base64 with more": lambda value: base64.b64encode(b"user:" + value.encode() + b"@host").decode(),
    "base64 of a URL": lambda value: base64.urlsafe_b64encode(b"user:" + value.encode()).decode(),
}


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    withheld.withhold("env:TOKEN", VALUE)
    yield
    withheld.forget()


@pytest.mark.parametrize("form", FORMS)
def test_a_known_value_is_found_in_this_form(form: str) -> None:
    text = f"before {FORMS[form](VALUE)} after"

    scrubbed = withheld.scrub(text)
    assert "[env:TOKEN]" in scrubbed
    assert scrubbed.startswith("before ")
    assert scrubbed.endswith(" after")
    with pytest.raises(SecretInInputError) as refused:
        withheld.refuse(orjson.dumps({"a": [text]}), "evidence")
    assert "env:TOKEN" in str(refused.value)
    assert "c4n4ry" not in str(refused.value)


def test_utf_16_read_byte_by_byte_is_found() -> None:
    text = "plainc4n4ry"
    withheld.withhold("env:PLAIN", text)

    for encoding in ("utf-16-le", "utf-16-be"):
        read = text.encode(encoding).decode("latin-1")
        assert "[env:PLAIN]" in withheld.scrub(read)
        with pytest.raises(SecretInInputError):
            withheld.refuse(orjson.dumps(read), "args")


@given(st.binary(max_size=7), st.binary(max_size=7), st.text(min_size=withheld.SHORTEST, max_size=40))
def test_base64_around_any_value_is_found(before: bytes, after: bytes, value: str) -> None:
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        return
    withheld.withhold("env:X", value)

    assert "[env:X]" in withheld.scrub(base64.b64encode(before + raw + after).decode())
    withheld.forget()


def test_what_is_not_known_is_left_alone() -> None:
    assert withheld.scrub("c4n4ry alone is another word") == "c4n4ry alone is another word"
    assert withheld.refuse(b'{"a": "c4n4ry"}', "args") == b'{"a": "c4n4ry"}'


def test_what_is_too_short_to_be_told_from_text_is_not_looked_for() -> None:
    withheld.withhold("env:PIN", "1234567")

    assert withheld.scrub("1234567 rows") == "1234567 rows"


def test_each_long_line_of_a_value_is_one_too() -> None:
    withheld.withhold("file:/key", "-----BEGIN KEY-----\nMIIBVgIBADANBgkqhkiG\nAAAA\n-----END KEY-----\n")

    assert withheld.scrub("got MIIBVgIBADANBgkqhkiG back") == "got [file:/key] back"


def test_the_longer_value_wins_where_one_holds_the_other() -> None:
    withheld.withhold("env:SHORT", "abcdefgh")
    withheld.withhold("env:LONG", "abcdefghijkl")

    assert withheld.scrub("abcdefghijkl abcdefgh") == "[env:LONG] [env:SHORT]"


def test_a_value_may_become_known_while_others_look() -> None:
    stop = threading.Event()
    failed: list[BaseException] = []

    def look() -> None:
        try:
            while not stop.is_set():
                withheld.scrub("x" * 100)
                withheld.refuse(b"x" * 100, "args")
        except BaseException as error:  # noqa: BLE001 - whatever it is
            failed.append(error)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(100):
        withheld.withhold(f"env:T{number}", f"another-value-{number}")
    stop.set()
    for thread in threads:
        thread.join()

    assert failed == []
    assert withheld.scrub("another-value-7 and another-value-99") == "[env:T7] and [env:T99]"
