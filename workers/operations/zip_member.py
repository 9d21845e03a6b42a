"""Which member of a zip file is the source, and what of zip files is not read."""

from __future__ import annotations

import struct
import zipfile
from io import BufferedReader
from typing import Final

from ...domain import storable
from ...domain.errors import InvalidFieldError, TooLargeError
from .errors import SourceDamagedError, SourceMissingError

DIRECTORY_LIMIT: Final = 16 * 1024 * 1024  # the list of members is read as a whole: bytes
NAMED_LIMIT: Final = 10  # members named in a refusal

_END, _END64, _LOCATOR64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_END_SIZE, _END64_SIZE, _LOCATOR64_SIZE = 22, 56, 20
_COMMENT_LIMIT = 65_535
_ENCRYPTED = 0x1
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def open_zip(path: str, file: BufferedReader) -> zipfile.ZipFile:
    """Open an archive whose list of members is of a sane size.

    Raises:
        SourceDamagedError: no zip file, or half of one; TooLargeError: a list over ``DIRECTORY_LIMIT``.
    """
    if _directory_size(file) > DIRECTORY_LIMIT:
        problem = f"a zip file whose list of members is over {DIRECTORY_LIMIT:,} bytes"
        raise TooLargeError("path", problem, "unpack it, and import the file itself")
    try:
        return zipfile.ZipFile(file)
    except NotImplementedError as error:  # ``zipfile``'s word for a newer format
        raise InvalidFieldError("path", f"{path}: {error}", "pack it again, with deflate") from None
    except (zipfile.BadZipFile, ValueError, struct.error):
        raise SourceDamagedError(path, "no whole zip file", "copy it there again") from None


def find_member(path: str, archive: zipfile.ZipFile, wanted: str) -> zipfile.ZipInfo:
    """Find the member *wanted*; without a name, the only one there is.

    Raises:
        SourceMissingError: no such member. InvalidFieldError: several, or one that can't be read.
    """
    files = [info for info in archive.infolist() if not info.is_dir()]
    if any(info.filename == "[Content_Types].xml" for info in files):
        raise InvalidFieldError("path", f"{path} is an office document", "save the sheet as CSV, and import that")
    found = [info for info in files if info.filename == wanted] if wanted else list(filter(_is_content, files))
    if not found:
        problem = f"no member {storable.text(wanted, limit=80)!r} in it" if wanted else "no file in it"
        raise SourceMissingError(path, problem, f"there are: {_named(files)}")
    if len(found) > 1:
        raise InvalidFieldError("path", f"{path} has several members", f"say {path}!NAME; there are: {_named(found)}")
    if found[0].flag_bits & _ENCRYPTED:
        raise InvalidFieldError("path", f"{path} is encrypted", "unpack it first")
    if found[0].compress_type not in _READ:
        problem = f"{path} is packed by method {found[0].compress_type}"
        raise InvalidFieldError("path", problem, "pack it with deflate, as zip does by itself")
    return found[0]


def _is_content(info: zipfile.ZipInfo) -> bool:
    """Whether it is no by-product of a Mac's archiver."""
    parts = info.filename.split("/")
    return parts[0] != "__MACOSX" and not parts[-1].startswith(".")


def _named(infos: list[zipfile.ZipInfo]) -> str:
    names = [storable.text(info.filename, limit=80) for info in infos[:NAMED_LIMIT]]
    return ", ".join([*names, "…"] if len(infos) > NAMED_LIMIT else names) or "none"


def _directory_size(file: BufferedReader) -> int:
    """Read the size of the list of members as ``zipfile`` would, which takes that many bytes into memory."""
    size = file.seek(0, 2)
    before = max(0, size - _END_SIZE - _COMMENT_LIMIT - _LOCATOR64_SIZE - _END64_SIZE)
    file.seek(before)
    tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_SIZE:
        return 0
    at64 = at - _LOCATOR64_SIZE - _END64_SIZE
    if at64 >= 0 and tail.startswith(_END64, at64) and tail.startswith(_LOCATOR64, at - _LOCATOR64_SIZE):
        return int(struct.unpack_from("<Q", tail, at64 + 40)[0])
    return int(struct.unpack_from("<L", tail, at + 12)[0])
