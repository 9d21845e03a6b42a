"""Heads as C2SP checkpoint notes: origin, size and root, under Ed25519 signatures; keys as in Go's ``sumdb/note``.

Any implementation of signed notes can check one.  The private key never lies in the database.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from ...domain.errors import InvalidFieldError, SignatureError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

_ED25519: Final = b"\x01"
_KEY: Final = 32
_ID: Final = 4
_SIGNATURE: Final = 64
_DASH: Final = "— "
_PRIVATE: Final = "PRIVATE+KEY+"
_LINES: Final = 3  #: of a head: origin, size, root
_ORIGIN: Final = "joblog"


class Head(NamedTuple):
    """What is signed: that the log *store_id* began with *size* events under this root, in *epoch*."""

    store_id: UUID
    epoch: int
    size: int
    root: bytes

    @property
    def origin(self) -> str:
        """Which log, and which epoch of it."""
        return f"{_ORIGIN}/{self.store_id}/{self.epoch}"

    def text(self) -> str:
        """The lines that are signed."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"


class SignedHead(NamedTuple):
    """A head and the whole note that it came in."""

    head: Head
    note: str


class Verifier:
    """A public key under its name, ``name+id+key``."""

    def __init__(self, name: str, key: bytes) -> None:
        self.name, self.key = name, key
        self.id = _key_id(name, key)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a public key.

        Raises:
            InvalidFieldError: it is none.
        """
        name, key = _parsed(text.strip(), "public key")
        return cls(name, key)

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{b64encode(_ED25519 + self.key).decode()}"

    def opened(self, note: str) -> SignedHead:
        """The head in *note*, if this key has signed it.

        Raises:
            SignatureError: it has not, or the note is none.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        head, text, signatures = parsed(note)
        found = [value for name, key_id, value in signatures if name == self.name and key_id == self.id]
        if not found:
            raise SignatureError(f"the head at {head.size} has no signature of the key {self.name}+{self.id.hex()}")
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(found[0], text.encode())
        except InvalidSignature:
            raise SignatureError(f"the signature on the head at {head.size} does not hold: it was forged") from None
        return SignedHead(head, note)


class Signer:
    """A private key under its name."""

    def __init__(self, name: str, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._name, self._seed = name, seed
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = Verifier(name, self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    @classmethod
    def generate(cls, name: str) -> Self:
        """A new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if not name or set(name) & {"+", *" \t\r\n"}:
            raise InvalidFieldError("name", f"{name!r} can't name a key", "use a name without spaces and plus signs")
        return cls(name, Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a key file.

        Raises:
            InvalidFieldError: there is none, others may read it, or it holds no key.
        """
        try:
            mode, text = path.stat().st_mode, path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidFieldError("signing key", f"{path} can't be read", "make one: joblog heads keygen") from error
        if mode & 0o077:
            raise InvalidFieldError("signing key", f"{path} can be read by others", f"chmod 600 {path}")
        if not text.startswith(_PRIVATE):
            raise InvalidFieldError("signing key", f"{path} holds no key", "make one: joblog heads keygen")
        return cls(*_parsed(text.removeprefix(_PRIVATE), "signing key", is_private=True))

    def save(self, path: Path) -> None:
        """Write the key where nobody else can read it, and the public one beside it.

        Raises:
            InvalidFieldError: there is a file already.
        """
        private = f"{_PRIVATE}{self._name}+{self.verifier.id.hex()}+{b64encode(_ED25519 + self._seed).decode()}\n"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise InvalidFieldError("file", f"{path} can't be made: {error.strerror}", "give a new path") from error
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(private)
        path.with_name(path.name + ".pub").write_text(f"{self.verifier}\n", encoding="ascii")

    def sign(self, head: Head) -> SignedHead:
        """The note; the same head gives the same note."""
        signature = b64encode(self.verifier.id + self._key.sign(head.text().encode())).decode()
        return SignedHead(head, f"{head.text()}\n{_DASH}{self._name} {signature}\n")


def _key_id(name: str, key: bytes) -> bytes:
    return sha256(name.encode() + b"\n" + _ED25519 + key).digest()[:_ID]


def _parsed(text: str, field: str, *, is_private: bool = False) -> tuple[str, bytes]:
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    try:
        raw = b64decode(encoded, validate=True)
        given = bytes.fromhex(key_id)
    except (Base64Error, ValueError):
        raw = given = b""
    fits = len(raw) == 1 + _KEY and raw[:1] == _ED25519 and name
    if not fits or (not is_private and given != _key_id(name, raw[1:])):
        raise InvalidFieldError(field, "it has not the form name+id+key", "give what `joblog heads keygen` has written")
    return name, raw[1:]


def parsed(note: str) -> tuple[Head, str, list[tuple[str, bytes, bytes]]]:
    """A note taken apart, unchecked: the head, the text that is signed, and the signatures (name, key id, value).

    Raises:
        SignatureError: it is none.
    """
    text, _, tail = note.partition("\n\n")
    text += "\n"
    lines = text.split("\n")
    signatures: list[tuple[str, bytes, bytes]] = []
    try:
        origin, size, root = lines[:_LINES]
        kind, store_id, epoch = origin.split("/")
        head = Head(UUID(store_id), int(epoch), int(size), b64decode(root, validate=True))
        for line in tail.splitlines():
            name, value = line.removeprefix(_DASH).rsplit(" ", 1)
            raw = b64decode(value, validate=True)
            if line.startswith(_DASH) and len(raw) == _ID + _SIGNATURE:
                signatures.append((name, raw[:_ID], raw[_ID:]))
    except ValueError as error:  # base64's own error is one too
        raise SignatureError(f"this is no signed head: {error}") from error
    if kind != _ORIGIN or len(head.root) != _KEY or not text.startswith(head.text()):
        raise SignatureError("this is no signed head of a job log")
    return head, text, signatures


def split_notes(text: str) -> list[str]:
    """The notes of a file that keeps one behind the other."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        if not found or (line.startswith(f"{_ORIGIN}/") and _DASH in found[-1]):
            found.append("")
        found[-1] += line
    return [note.rstrip("\n") + "\n" for note in found if note.strip()]
