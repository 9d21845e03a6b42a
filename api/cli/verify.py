"""`verify`: the log as it is now, against what was seen of it and what was signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError, SignatureError
from ..text import clean, counted
from .exits import Exit
from .measure import Measure
from .output import answer
from .progress import Progress
from .session import find_job, open_log
from .settings import shared_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...projections.proof.notes import SignedHead, Verifier
    from ...projections.proof.report import KnownHead, Report
    from ...workers.commands.log import JobLog

_HEADS: Final = 1000  #: heads of the database that are held against the log
_TOLD: Final = 100  #: findings that are shown; the others are counted
_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command(name="verify")
@click.option("--from", "first", type=click.IntRange(min=1), metavar="POSITION", help="Only from here on.")
@click.option("--to", "last", type=click.IntRange(min=1), metavar="POSITION", help="Only up to here.")
@click.option("--job", default="", metavar="ID", help="Only the events of this job.")
@click.option("--file", type=_FILE, metavar="EXPORT", help="An exported file instead of the log; no database is asked.")
@click.option("--head", "heads", type=_FILE, multiple=True, metavar="FILE", help="Heads that were kept elsewhere.")
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
    verifier = public_key(key)
    if file is not None:
        report, known, forged = _of_file(file, heads, verifier)
    else:
        with open_log(reading=True) as log:
            known, forged = known_heads(log, heads, verifier)
            report = _of_log(log, known, job=job, first=first, last=last)
    for text in forged:
        report.add("signature", 0, 0, text)
    return tell(report, "\n".join(_sentences(report, known)))


def _of_log(log: JobLog, known: list[KnownHead], *, job: str, first: int | None, last: int | None) -> Report:
    from ...projections.proof import check, part

    if job:
        return part.check_job(log.store, find_job(log, job), known)
    if first is not None or last is not None:
        return part.check_range(log.store, first or 1, last or log.store.head(), known)
    progress = Progress("verifying")
    report = check.check_log(log.store, known, report=lambda done, end: progress.update(Measure(done, end, "event")))
    progress.end()
    return report


def _of_file(file: Path, heads: Sequence[Path], verifier: Verifier | None) -> tuple[Report, list[KnownHead], list[str]]:
    from ...projections.proof.notes import SignedHead, parsed
    from ...projections.transfer.manifest import Manifest, manifest_of
    from ...projections.transfer.offline import check_export

    manifest = Manifest.load(manifest_of(file))
    inside = [("manifest's", SignedHead(parsed(note)[0], note)) for note in manifest.heads]
    known, forged = judged([*(("kept", one) for one in kept(heads)), *inside], verifier)
    progress = Progress("verifying")
    report = check_export(file, known, report=lambda done, end: progress.update(Measure(done, end, "event")))
    progress.end()
    return report, known, forged


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


def known_heads(log: JobLog, files: Sequence[Path], verifier: Verifier | None) -> tuple[list[KnownHead], list[str]]:
    """The heads to hold the log against, and what is said of those whose signature does not hold."""
    from ...projections.proof.heads import stored_heads

    stored = thinned(stored_heads(log.store))
    return judged([*(("kept", one) for one in kept(files)), *(("stored", one) for one in stored)], verifier)


def thinned(heads: Sequence[SignedHead]) -> Sequence[SignedHead]:
    """Not too many of them, the newest among them: it speaks for all that were signed before it."""
    step = max(-(-len(heads) // _HEADS), 1)
    return heads[::-1][::step][::-1]


def judged(heads: Sequence[tuple[str, SignedHead]], verifier: Verifier | None) -> tuple[list[KnownHead], list[str]]:
    """Check signatures where there is a key.  Without one, a head is as good as the place where it was kept."""
    from ...projections.proof.report import KnownHead

    known: list[KnownHead] = []
    forged: list[str] = []
    for source, signed in heads:
        try:
            if verifier is not None:
                verifier.opened(signed.note)
        except SignatureError as error:
            forged.append(f"{source}: {error}")
        else:
            known.append(KnownHead(signed.head, source, is_trusted=source == "kept" or verifier is not None))
    return known, forged


def _sentences(report: Report, known: Sequence[KnownHead]) -> list[str]:
    lines = [f"{counted(report.checked, 'event')} of {report.end:,} checked, epoch {report.epoch}"]
    if report.findings:
        return lines
    if report.signed:
        lines.append(
            f"proven up to {report.signed:,} by a head from outside; {counted(report.unsigned, 'event')} not yet"
        )
    else:
        size = max((one.head.size for one in known), default=report.tree)
        lines.append(
            f"self-consistent up to {size:,}, {counted(report.end - size, 'event')} not yet signed; "
            "nothing from outside speaks for it: give --head or --key"
        )
    return lines


def tell(report: Report, summary: str) -> Exit:
    """Say what was found."""
    document: dict[str, Any] = {"epoch": report.epoch, "end": report.end, "checked": report.checked}
    document |= {"tree": report.tree, "root": report.root.hex() or None, "heads": report.heads}
    document |= {"proven": report.signed, "unsigned": report.unsigned, "findings": len(report.findings)}
    told = report.findings[:_TOLD]
    lines = [clean(f"{finding.kind}: {finding.text}") for finding in told]
    if len(report.findings) > len(told):
        lines.append(f"… and {len(report.findings) - len(told):,} more")
    if report.findings:
        lines.append(f"{counted(len(report.findings), 'finding')}: this is not the log that was written")
    answer(document | {"items": [finding._asdict() for finding in told]}, *lines, summary)
    return Exit.CHECK_FAILED if report.findings else Exit.DONE
