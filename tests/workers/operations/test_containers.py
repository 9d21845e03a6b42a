"""Plain, gzip and zip files, told apart by content; damage, bombs and doubtful archives are refused."""

import gzip
import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from joblog.domain.errors import InvalidFieldError, TooLargeError
from joblog.workers.operations import container, zip_member
from joblog.workers.operations.errors import SourceDamagedError, SourceMissingError
from tests.workers.operations.source_files import limits, planned, read, values, write

CONTENT = b"a,b\n" + b"".join(b"%d,%d\n" % (number, number * 7919) for number in range(20_000))


def archive(path: Path, *members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        for name, content in members:
            made.writestr(name, content)
    return path


@pytest.mark.parametrize(("name", "kind"), [("t.csv", "plain"), ("t.csv", "gzip"), ("t.csv", "zip"), ("t.dat", "gzip")])
def test_the_container_is_told_by_the_first_bytes(tmp_path: Path, name: str, kind: str) -> None:
    path = write(tmp_path / name, CONTENT, kind)
    renamed = path.rename(tmp_path / "x.bin")
    plan = planned(renamed)

    assert (plan.container, plan.format) == (kind, "csv")
    assert len(values(plan)) == 20_000
    assert plan.total == (None if kind == "gzip" else len(CONTENT))


def test_the_format_is_told_by_the_name_inside(tmp_path: Path) -> None:
    assert planned(archive(tmp_path / "t.zip", ("dir/rows.tsv", b"a\tb\n"))).columns == ("a", "b")
    assert planned(write(tmp_path / "t.tsv", b"a\tb\n", "gzip")).columns == ("a", "b")


def test_a_gzip_file_of_several_parts_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n") + gzip.compress(b"2\n"))

    assert values(planned(path)) == [{"a": "1"}, {"a": "2"}]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_method_of_the_standard_library_is_unpacked(tmp_path: Path, method: int) -> None:
    path = archive(tmp_path / "t.zip", ("t.csv", CONTENT), method=method)

    assert len(values(planned(path))) == 20_000


def test_the_only_file_in_a_zip_is_taken_past_what_macs_and_folders_leave(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "t.zip", ("d/", b""), ("d/t.csv", b"a\n1\n"), ("__MACOSX/d/._t.csv", b"\0"), ("d/.DS_Store", b"\0")
    )
    plan = planned(path)

    assert plan.member == "d/t.csv"
    assert values(plan) == [{"a": "1"}]


def test_of_several_files_in_a_zip_one_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "t.zip", ("a.csv", b"a\n1\n"), ("b!c.csv", b"a\n2\n"))

    with pytest.raises(InvalidFieldError, match=r"say .*t.zip!NAME; there are: a.csv, b!c.csv"):
        planned(path)
    assert values(planned(Path(f"{path}!a.csv"))) == [{"a": "1"}]
    assert values(planned(Path(f"{path}!b!c.csv"))) == [{"a": "2"}]
    with pytest.raises(SourceMissingError, match=r"no member 'c.csv' in it; there are: a.csv, b!c.csv"):
        planned(Path(f"{path}!c.csv"))


def test_an_exclamation_mark_may_stand_in_any_name(tmp_path: Path) -> None:
    path = archive(tmp_path / "wow!.zip", ("t.csv", b"a\n1\n"))
    plain = write(tmp_path / "t.zip!x.csv", b"a\n2\n")

    assert values(planned(path)) == values(planned(Path(f"{path}!t.csv"))) == [{"a": "1"}]
    assert values(planned(plain)) == [{"a": "2"}]


def test_two_members_of_one_name_are_no_choice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = archive(tmp_path / "t.zip", ("a.csv", b"a\n1\n"), ("a.csv", b"a\n2\n"))

    with pytest.raises(InvalidFieldError, match="several"):
        planned(Path(f"{path}!a.csv"))


def test_an_office_document_is_named_as_such(tmp_path: Path) -> None:
    path = archive(tmp_path / "t.xlsx", ("[Content_Types].xml", b"<x/>"), ("xl/sheet1.xml", b"<x/>"))

    with pytest.raises(InvalidFieldError, match="save the sheet as CSV"):
        planned(path)


def test_a_zip_without_files_and_a_list_of_many_are_told(tmp_path: Path) -> None:
    with pytest.raises(SourceMissingError, match="no file in it; there are: none"):
        planned(archive(tmp_path / "t.zip", ("d/", b"")))
    many = archive(tmp_path / "m.zip", *((f"{number:02}.csv", b"") for number in range(30)))
    with pytest.raises(InvalidFieldError, match=r"09.csv, …$"):
        planned(many)


def patched(path: Path, signature: bytes, at: int, value: bytes) -> Path:
    """Change a field of every header that begins with *signature*."""
    content = bytearray(path.read_bytes())
    found = content.find(signature)
    while found >= 0:
        content[found + at : found + at + len(value)] = value
        found = content.find(signature, found + 1)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (8, b"\x01\x00", "is encrypted"),
        (10, b"\x62\x00", "packed by method 98"),
        (6, b"\x40\x00", "zip file version 6.4; pack it again"),
    ],
)
def test_a_member_that_can_not_be_unpacked_is_refused_at_once(
    tmp_path: Path, at: int, value: bytes, message: str
) -> None:
    path = archive(tmp_path / "t.zip", ("t.csv", CONTENT))

    with pytest.raises(InvalidFieldError, match=message):
        planned(patched(path, b"PK\x01\x02", at, value))


@pytest.mark.parametrize("magic", [b"BZh91AY", b"\xfd7zXZ\0\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c"])
def test_other_packers_are_refused_by_name(tmp_path: Path, magic: bytes) -> None:
    with pytest.raises(InvalidFieldError, match="pack it with gzip or zip"):
        planned(write(tmp_path / "t.csv", magic + b"x" * 50))


def test_a_member_of_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b"a\n1\n")

    with pytest.raises(InvalidFieldError, match="is no zip file"):
        planned(Path(f"{path}!x"))


@pytest.mark.parametrize("kind", ["gzip", "zip"])
def test_a_file_cut_off_or_with_a_flipped_byte_is_damaged(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "t.csv", CONTENT, kind)
    whole = path.read_bytes()
    damaged = 0
    for content in (whole[: len(whole) // 2], whole[:-4], whole[:20_000] + b"\xff\x00\xff" + whole[20_003:]):
        path.write_bytes(content)
        with pytest.raises(SourceDamagedError) as refused:
            read(planned(path))
        assert (refused.value.code, refused.value.path) == ("source-damaged", str(path))
        damaged += 1
    assert damaged == 3


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "RATIO_FREE", 1000)
    path = write(tmp_path / "t.csv", b"a\n0\n" + b"\n" * 3_000_000, "gzip")

    with pytest.raises(SourceDamagedError, match="more than 250 times its size"):
        read(planned(path))


def test_a_huge_list_of_members_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "t.zip", ("a.csv", b"a\n"), ("b.csv", b"a\n"))
    monkeypatch.setattr(zip_member, "DIRECTORY_LIMIT", 60)

    with pytest.raises(TooLargeError, match="list of members is over 60 bytes"):
        planned(path)


def test_the_list_of_a_zip_over_4_gib_is_measured_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "t.zip", ("a.csv", b"a\n1\n"))
    content = path.read_bytes()
    size, offset = struct.unpack_from("<LL", content, len(content) - 10)
    end64 = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(content) - 22, 1)
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(content[:-22] + end64 + locator + end)

    assert values(planned(path)) == [{"a": "1"}]
    monkeypatch.setattr(zip_member, "DIRECTORY_LIMIT", size - 1)
    with pytest.raises(TooLargeError):
        planned(path)


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceMissingError, match="No such file") as refused:
        planned(tmp_path / "t.csv")
    assert refused.value.code == "source-missing"

    plan = planned(write(tmp_path / "t.csv", b"a\n1\n"))
    (tmp_path / "t.csv").unlink()
    with pytest.raises(SourceMissingError):
        read(plan)


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_names_no_file_is_refused(path: str) -> None:
    with pytest.raises(InvalidFieldError):
        container.split_path(path)


def test_what_can_not_be_read_twice_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(InvalidFieldError, match="no regular file"):
            planned(path)


def test_a_relative_path_is_kept_as_an_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path / "t.zip", ("t.csv", b"a\n1\n"))
    monkeypatch.chdir(tmp_path)

    assert planned(Path("t.zip")).path == planned(Path("t.zip!t.csv")).path == str(tmp_path / "t.zip")


@pytest.mark.parametrize("kind", ["gzip", "zip"])
def test_a_resume_unpacks_up_to_its_place(tmp_path: Path, kind: str) -> None:
    plan = planned(write(tmp_path / "t.csv", CONTENT, kind))
    with limits(chunk=1000), Path(plan.path).open("rb") as file:
        opened = container.Container(plan.path, file)

        for offset in (0, 1, 999, 1000, 1001, 100_000, len(CONTENT), len(CONTENT) + 5):
            stream = opened.open_at(offset)
            assert stream.read(10) == CONTENT[offset : offset + 10]


def test_a_stream_gives_all_that_is_asked_for(tmp_path: Path) -> None:
    """Short reads would make chunks differ between two readings."""
    for kind in ("plain", "gzip", "zip"):
        path = write(tmp_path / "t.csv", CONTENT, kind)
        with path.open("rb") as file:
            assert len(container.Container(str(path), file).open_at(0).read(100_000)) == 100_000


def test_errors_of_the_disk_are_not_taken_for_damage() -> None:
    class Failing(io.RawIOBase):
        def read(self, size: int = -1, /) -> Any:
            raise OSError(5, f"I/O error after {size}")

    with pytest.raises(OSError, match="I/O error"):
        container.Unpacking("p", Failing(), 1).read(1)
