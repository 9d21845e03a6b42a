"""Which encodings are read, how a byte order mark tells one, and how many bytes a text was."""

from __future__ import annotations

import codecs
import re
from typing import Final

from ...domain.errors import InvalidFieldError
from .rows import Code, UnfitError

UTF: Final = frozenset({"utf-8", "utf-16-le", "utf-16-be"})
#: One byte is one character, and every ASCII byte is itself: a cursor can count bytes.
SINGLE_BYTE: Final = frozenset(
    {"ascii", "koi8-r", "koi8-u", "mac-roman", "cp437", "cp850", "cp852", "cp866", "cp874"}
    | {f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))}
    | {f"cp125{page}" for page in range(9)}
)
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNFIT = re.compile("[\0\ud800-\udfff]")


def choose_encoding(head: bytes, declared: str = "") -> tuple[str, int]:
    """Name the encoding of a file that begins with *head*, and the length of its byte order mark.

    Without a mark and a declaration it is UTF-8: bytes that are none are then problems of their rows, never
    guessed.

    Raises:
        InvalidFieldError: an encoding that is not read, or one that the mark contradicts.
    """
    wanted = _normal(declared) if declared else ""
    mark, marked = next((each for each in _MARKS if head.startswith(each[0])), (b"", ""))
    if not marked and wanted == "utf-16":
        raise InvalidFieldError("encoding", "utf-16 without a byte order mark", "say utf-16-le or utf-16-be")
    if marked and wanted not in {"", marked, marked[:6]}:
        problem = f"{declared}, but the file begins with the mark of {marked}"
        raise InvalidFieldError("encoding", problem, "leave the encoding out, or remove the mark")
    chosen = marked or wanted or "utf-8"
    if chosen not in UTF and chosen not in SINGLE_BYTE:
        problem = f"{chosen} is not read"
        raise InvalidFieldError("encoding", problem, "convert the file to UTF-8, as with iconv")
    return chosen, len(mark)


def _normal(declared: str) -> str:
    try:
        found = codecs.lookup(declared).name
    except (LookupError, ValueError):
        raise InvalidFieldError("encoding", f"{declared[:40]!r} is unknown", "say utf-8, or latin-1") from None
    return found.removesuffix("-sig").replace("_", "-")


def error_handler(encoding: str) -> str:
    """The codec's error handler that keeps every bad byte as a lone surrogate, from which it comes back."""
    return "surrogatepass" if encoding.startswith("utf-16") else "surrogateescape"


def size_of(text: str, encoding: str) -> int:
    """How many bytes *text* was in the file."""
    if encoding in SINGLE_BYTE:
        return len(text)
    return len(text.encode(encoding, error_handler(encoding)))


def is_suspect(text: str) -> bool:
    """Whether *text* holds anything that ``check_text`` refuses; quick."""
    return "\0" in text if text.isascii() else bool(_UNFIT.search(text))


def check_text(text: str, encoding: str, column: str = "") -> None:
    """Refuse text with NUL or with bytes that could not be decoded.

    Raises:
        UnfitError: which of both, and where.
    """
    if found := _UNFIT.search(text):
        char = ord(found[0])
        if not char:
            raise UnfitError(Code.UNSTORABLE, f"NUL at character {found.start() + 1}", column)
        unit = f"byte 0x{char - 0xDC00:02X}" if encoding not in UTF - {"utf-8"} else f"surrogate 0x{char:04X}"
        problem = f"{unit} at character {found.start() + 1} is no {encoding}; declare the file's encoding"
        raise UnfitError(Code.UNDECODABLE, problem, column)
