"""What a verification came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...eventstore.bodies import archive_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .notes import Head


TOLD: Final = 100  #: findings that are told; the others are counted


class Finding(NamedTuple):
    """Something that is not as it was, and where: the positions from *first* to *last*."""

    kind: str  #: changed, missing, contradiction, unproven, rewound, tree, stream, signature, archive
    first: int
    last: int
    text: str


class KnownHead(NamedTuple):
    """A head to hold the log against.

    *is_trusted*: its signature was checked under a key from outside, or somebody outside has kept it.
    """

    head: Head
    source: str  #: kept, or stored in the database
    is_trusted: bool


@dataclass(slots=True)
class Report:
    """A verification, whole or of a part."""

    epoch: int
    end: int  #: the last position when it began
    checked: int = 0  #: events
    root: bytes = b""  #: of the log up to its end, if all of it was read
    tree: int = 0  #: leaves of the stored tree
    signed: int = 0  #: the greatest size that a trusted head proves
    heads: int = 0  #: heads that agree
    known: int = 0  #: the greatest size that any head speaks of, or the tree does
    findings: list[Finding] = field(default_factory=list)
    archived: dict[str, int] = field(default_factory=dict)  #: by archive: events whose body was not at hand

    @property
    def unsigned(self) -> int:
        """Events behind the last trusted head: nothing but the database speaks for them."""
        return self.end - self.signed

    def stands_in(self, position: int, state: Any) -> bool:
        """Whether a body is in an archive and not at hand, so that its leaf must stand in for it."""
        if not (name := archive_of(state)):
            return False
        self.archived[name] = self.archived.get(name, 0) + 1
        if state.problem:
            self.add("archive", position, position, f"{{at}}: {state.problem}")
        return True

    def document(self) -> dict[str, Any]:
        """For programs."""
        made: dict[str, Any] = {"epoch": self.epoch, "end": self.end, "checked": self.checked}
        made |= {"tree": self.tree, "root": self.root.hex() or None, "heads": self.heads}
        made |= {"proven": self.signed, "unsigned": self.unsigned, "findings": len(self.findings)}
        made["archived"] = self.archived
        return made | {"items": [finding._asdict() for finding in self.findings[:TOLD]], "known": self.known}

    def add(self, kind: str, first: int, last: int, text: str) -> None:
        """One more finding; *text* may say {at} for its place."""
        at = f"position {first}" if first == last else f"positions {first} to {last}"
        self.findings.append(Finding(kind, first, last, text.format(at=at)))


def ranges(positions: Iterable[int]) -> list[tuple[int, int]]:
    """Rising positions as (first, last) of each unbroken run."""
    found: list[tuple[int, int]] = []
    for position in positions:
        if found and found[-1][1] == position - 1:
            found[-1] = (found[-1][0], position)
        else:
            found.append((position, position))
    return found
