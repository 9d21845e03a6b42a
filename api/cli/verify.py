"""`verify`: the log as it is now, against what was seen of it and what was signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...domain.errors import InvalidFieldError
from ..measure import Measure
from ..text import clean, counted
from .door import open_door
from .exits import Exit
from .output import answer
from .progress import Progress
from .session import find_job, open_log
from .settings import shared_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...projections.proof.notes import SignedHead, Verifier
    from ...projections.proof.report import Report
    from .door import Document

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command(name="verify")
@click.option("--from", "first", type=click.IntRange(min=1), metavar="POSITION", help="Only from here on.")
@click.option("--to", "last", type=click.IntRange(min=1), metavar="POSITION", help="Only up to here.")
@click.option("--job", default="", metavar="ID", help="Only the events of this job.")
@click.option("--file", type=_FILE, metavar="EXPORT", help="An exported file instead of the log; no database is asked.")
@click.option(
    "--head",
    "heads",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Heads that were kept elsewhere (with --db or --file).",
)
@click.option(
    "--key", default="", envvar="JOBLOG_VERIFY_KEY", metavar="KEY", help="The public key of the heads, or its file."
)
@shared_options()
def verify_command(
    *, first: int | None, last: int | None, job: str, file: Path | None, heads: tuple[Path, ...], key: str
) -> Exit:
    """Check that no event was changed, removed, moved or slipped in.

    Ends with 5 if one was.  The tree of hashes that lies beside the log finds what was changed after it was seen.  Only a
    head that was kept elsewhere (--head), or signed under a key that is not in the database (--key), also finds who
    changed both.
    """
    from ...projections.proof.known import check

    verifier = public_key(key)
    progress = Progress("verifying")

    def say(done: int, end: int) -> None:
        progress.update(Measure(done, end, "event"))

    if file is not None:
        document = _of_file(file, heads, verifier, say).document()
    elif heads or verifier is not None:
        with open_log(reading=True) as log:
            only = find_job(log, job) if job else None
            known = kept(heads)
            document = check(log.store, known, verifier, job=only, first=first, last=last, report=say).document()
    else:
        with open_door(reading=True) as door:
            document = door.verify(door.find(job) if job else "", first, last, say)
    progress.end()
    return tell(document)


def _of_file(file: Path, heads: Sequence[Path], verifier: Verifier | None, say: Callable[[int, int], None]) -> Report:
    from ...projections.proof.known import judged
    from ...projections.proof.notes import SignedHead, parsed
    from ...projections.transfer.manifest import Manifest, manifest_of
    from ...projections.transfer.offline import check_export

    manifest = Manifest.load(manifest_of(file))
    inside = [("manifest's", SignedHead(parsed(note)[0], note)) for note in manifest.heads]
    known, forged = judged([*(("kept", one) for one in kept(heads)), *inside], verifier)
    report = check_export(file, known, report=say)
    report.known = max((one.head.size for one in known), default=report.tree)
    for text in forged:
        report.add("signature", 0, 0, text)
    return report


def public_key(text: str) -> Verifier | None:
    """The key given as such or by its file; None if none is given."""
    from ...projections.proof.notes import Verifier

    if not text:
        return None
    if "+" not in text:
        try:
            text = Path(text).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidFieldError("key", f"{text} can't be read", "give the public key, or its file") from error
    return Verifier.parse(text)


def kept(files: Sequence[Path]) -> list[SignedHead]:
    """The heads of these files."""
    from ...projections.proof.heads import kept_heads

    found: list[SignedHead] = []
    for file in files:
        if not file.is_file():
            raise InvalidFieldError("head", f"there is no file {file}", "give a file of signed heads")
        found += kept_heads(file)
    return found


def _sentences(document: Document) -> list[str]:
    lines = [f"{counted(document['checked'], 'event')} of {document['end']:,} checked, epoch {document['epoch']}"]
    for name, count in document["archived"].items():
        lines.append(clean(f"{counted(count, 'event')} in archive {name}, checked by their leaf hashes only"))
    if document["findings"]:
        return lines
    if proven := document["proven"]:
        unsigned = counted(document["unsigned"], "event")
        lines.append(f"proven up to {proven:,} by a head from outside; {unsigned} not yet")
    else:
        size = document["known"]
        lines.append(
            f"self-consistent up to {size:,}, {counted(document['end'] - size, 'event')} not yet signed; "
            "nothing from outside speaks for it: give --head or --key"
        )
    return lines


def tell(document: Document) -> Exit:
    """Say what was found."""
    count, items = document["findings"], document["items"]
    lines = [clean(f"{one['kind']}: {one['text']}") for one in items]
    if count > len(items):
        lines.append(f"… and {count - len(items):,} more")
    if count:
        lines.append(f"{counted(count, 'finding')}: this is not the log that was written")
    answer(document, *lines, "\n".join(_sentences(document)))
    return Exit.CHECK_FAILED if count else Exit.DONE
