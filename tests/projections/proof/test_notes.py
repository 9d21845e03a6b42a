"""Heads are C2SP checkpoint notes, and only the key's owner makes them."""

import stat
from pathlib import Path
from uuid import UUID

import pytest

from joblog.domain.errors import InvalidFieldError, SignatureError
from joblog.projections.proof.notes import Head, Signer, Verifier, parsed, split_notes
from tests.projections.proof.logs import SIGNER

HEAD = Head(UUID(int=7), 2, 1234, bytes(range(32)))
LOG = "00000000-0000-0000-0000-000000000007"


def test_a_note_is_origin_size_root_and_signature() -> None:
    note = SIGNER.sign(HEAD).note
    lines = note.split("\n")

    assert lines[:4] == [f"joblog/{LOG}/2", "1234", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", ""]
    assert lines[4].startswith("— log.example ")
    assert lines[5:] == [""]
    assert SIGNER.verifier.opened(note).head == HEAD
    assert SIGNER.sign(HEAD).note == note


def test_a_key_of_the_go_implementation_is_read() -> None:
    """The example of golang.org/x/mod/sumdb/note."""
    text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"

    verifier = Verifier.parse(f"{text}\n")

    assert (verifier.name, verifier.id.hex(), str(verifier)) == ("PeterNeumann", "c74f20a3", text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1234", "1235"),
        ("/2\n", "/3\n"),
        ("AAECAwQF", "AAECAwQG"),
        ("00000007", "00000008"),
        ("— log", "— log2"),
        ("— log.example ", "— log.example A"),
        ("\n\n", "\nsomething else\n\n"),
        ("joblog/", "other/"),
        ("1234", "many"),
        ("— log", "- log"),
    ],
)
def test_a_note_that_was_changed_is_refused(old: str, new: str) -> None:
    note = SIGNER.sign(HEAD).note
    assert old in note

    with pytest.raises(SignatureError):
        SIGNER.verifier.opened(note.replace(old, new, 1))


def test_another_key_of_the_same_name_is_no_signature() -> None:
    other = Signer(SIGNER.verifier.name, bytes(32))

    with pytest.raises(SignatureError, match="no signature of the key"):
        SIGNER.verifier.opened(other.sign(HEAD).note)


def test_a_further_signature_does_no_harm() -> None:
    note = SIGNER.sign(HEAD).note
    witness = Signer("witness", bytes(32)).sign(HEAD).note.split("\n\n")[1]

    assert SIGNER.verifier.opened(note + witness).head == HEAD
    assert Signer("witness", bytes(32)).verifier.opened(note + witness).head == HEAD


def test_a_file_keeps_one_behind_the_other() -> None:
    notes = [SIGNER.sign(HEAD._replace(size=size)).note for size in (1, 2, 3)]

    assert split_notes("".join(notes)) == notes
    assert [parsed(note)[0].size for note in split_notes("\n".join(notes))] == [1, 2, 3]
    assert split_notes("") == []


def test_a_key_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = Signer.generate("log.example/prod")
    made.save(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(made.verifier) == (tmp_path / "key.pub").read_text().strip()
    assert str(made.verifier) not in path.read_text()
    assert Signer.load(path).sign(HEAD) == made.sign(HEAD)
    assert Verifier.parse((tmp_path / "key.pub").read_text()).opened(made.sign(HEAD).note).head == HEAD
    with pytest.raises(InvalidFieldError, match="can't be made"):
        made.save(path)

    path.chmod(0o640)
    with pytest.raises(InvalidFieldError, match="can be read by others"):
        Signer.load(path)


@pytest.mark.parametrize("text", ["", "PRIVATE+KEY+", "PRIVATE+KEY+x+00000000+AAAA", "x+c74f20a3+AAAA", "\x80"])
def test_what_is_no_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(text.encode("latin-1"))
    path.chmod(0o600)

    with pytest.raises(InvalidFieldError):
        Signer.load(path)
    with pytest.raises(InvalidFieldError):
        Verifier.parse(text)
    with pytest.raises(InvalidFieldError):
        Signer.load(tmp_path / "none")


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb"])
def test_what_can_name_no_key(name: str) -> None:
    with pytest.raises(InvalidFieldError):
        Signer.generate(name)
