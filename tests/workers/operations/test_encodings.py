"""Encodings are declared or marked, else UTF-8; what does not fit is a row's problem or a refusal, never a guess."""

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.domain.errors import InvalidFieldError
from joblog.workers.operations.encoding import SINGLE_BYTE, UTF, error_handler, is_suspect, size_of
from tests.workers.operations.source_files import planned, problems, rows, values, write

TEXT = "name,città\nÅsa,São Paulo\n"
FOUND = [{"name": "Åsa", "città": "São Paulo"}]


@pytest.mark.parametrize(
    ("codec", "declared", "found"),
    [
        ("utf-8", "", "utf-8"),
        ("utf-8-sig", "", "utf-8"),
        ("utf-8-sig", "UTF-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig", "utf-8"),
        ("utf-16", "", "utf-16-le"),
        ("utf-16", "utf-16", "utf-16-le"),
        ("utf-16-le", "UTF-16LE", "utf-16-le"),
        ("utf-16-be", "utf-16-be", "utf-16-be"),
        ("latin-1", "latin-1", "iso8859-1"),
        ("cp1252", "windows-1252", "cp1252"),
        ("mac-roman", "macroman", "mac-roman"),
    ],
)
def test_an_encoding_is_marked_or_declared(tmp_path: Path, codec: str, declared: str, found: str) -> None:
    plan = planned(write(tmp_path / "t.csv", TEXT.encode(codec)), encoding=declared)

    assert plan.encoding == found
    assert values(plan) == FOUND


def test_a_big_endian_mark_is_known_too(tmp_path: Path) -> None:
    plan = planned(write(tmp_path / "t.csv", codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be")))

    assert values(plan) == FOUND


def test_a_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert planned(write(tmp_path / "t.csv", "\ufeffname\nx\n".encode())).columns == ("name",)
    quoted = planned(write(tmp_path / "t.csv", '\ufeff"na,me",b\nx,y\n'.encode()))
    assert quoted.columns == ("na,me", "b")


def test_latin_1_without_a_declaration_is_a_problem_that_says_so(tmp_path: Path) -> None:
    plan = planned(write(tmp_path / "t.csv", b"a,b\nx,caf\xe9\nx,y\n"))
    (bad, good) = rows(plan)

    assert problems(plan) == [(1, 2, "undecodable", "b")]
    assert bad.problem
    assert "byte 0xE9 at character 4 is no utf-8; declare" in bad.problem.text
    assert good.values == {"a": "x", "b": "y"}


@pytest.mark.parametrize(
    ("codec", "broken"),
    [
        ("utf-16-le", b"\x00\xd8"),
        ("utf-16-be", b"\xdc\x00"),
        ("cp1252", b"\x81"),
        ("ascii", b"\xff"),
        ("utf-8", b"\xc3"),
        ("utf-8", b"\xf8\x88\x80\x80\x80"),
    ],
)
def test_bytes_that_are_no_text_cost_one_row(tmp_path: Path, codec: str, broken: bytes) -> None:
    content = "a,b\n1,2\n3,".encode(codec) + broken + "\n5,6\n".encode(codec)
    plan = planned(write(tmp_path / "t.csv", content), encoding=codec)

    assert problems(plan) == [(2, 3, "undecodable", "b")]
    assert [row.values.get("b") for row in rows(plan)] == ["2", None, "6"]


def test_half_a_character_at_the_end_is_no_text(tmp_path: Path) -> None:
    for encoding, content in (("utf-16-le", "a,b\n1,2".encode("utf-16-le") + b"x"), ("utf-8", b"a,b\n1,2\xe2\x82")):
        assert [code for _, _, code, _ in problems(planned(write(tmp_path / "t.csv", content), encoding=encoding))] == [
            "undecodable"
        ]


@pytest.mark.parametrize(
    ("content", "declared", "message"),
    [
        (b"a", "utf-16", "say utf-16-le or utf-16-be"),
        (b"a", "utf-32", "convert the file to UTF-8"),
        (b"a", "utf-7", "convert the file to UTF-8"),
        (b"a", "cp037", "convert the file to UTF-8"),
        (b"a", "shift_jis", "convert the file to UTF-8"),
        (b"a", "rot13", "convert the file to UTF-8"),
        (b"a", "klingon", "is unknown"),
        (b"a", "a\0b", "is unknown"),
        (codecs.BOM_UTF32_LE + b"a\0\0\0", "", "utf-32 is not read"),
        (codecs.BOM_UTF16_LE + b"a\0", "utf-8", "begins with the mark of utf-16-le"),
        (codecs.BOM_UTF16_LE + b"a\0", "utf-16-be", "begins with the mark of utf-16-le"),
        (codecs.BOM_UTF8 + b"a", "latin-1", "begins with the mark of utf-8"),
    ],
)
def test_a_contradiction_or_an_encoding_that_is_not_read_is_refused(
    tmp_path: Path, content: bytes, declared: str, message: str
) -> None:
    with pytest.raises(InvalidFieldError, match=message):
        planned(write(tmp_path / "t.csv", content), encoding=declared)


@pytest.mark.parametrize("encoding", sorted(SINGLE_BYTE))
def test_one_byte_is_one_character_and_ascii_is_itself(encoding: str) -> None:
    """A cursor counts on it."""
    every = bytes(range(256))
    text = every.decode(encoding, error_handler(encoding))

    assert len(text) == 256
    assert text[:128] == every[:128].decode("ascii")
    assert codecs.lookup(encoding).name.replace("_", "-") == encoding


@given(st.binary(), st.sampled_from(sorted(SINGLE_BYTE | UTF)))
def test_the_size_of_any_bytes_is_told_by_their_text(content: bytes, encoding: str) -> None:
    if encoding.startswith("utf-16") and len(content) % 2:
        content = content[1:]
    text = content.decode(encoding, error_handler(encoding))

    assert size_of(text, encoding) == len(content)


@given(st.text(st.characters(exclude_categories=())))
def test_suspicion_falls_on_what_can_not_be_stored(text: str) -> None:
    try:
        storable = "\0" not in text and bool(text.encode()) >= 0
    except UnicodeEncodeError:
        storable = False
    assert is_suspect(text) != storable
