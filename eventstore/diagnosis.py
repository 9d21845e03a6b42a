"""Why an append was refused, or where it is after all: the same questions to every store, in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from ..domain.errors import (
    ExclusiveKeyHeldError,
    IncompleteError,
    LeaseHeldError,
    LeaseLostError,
    RequestConflictError,
    UnitConflictError,
    UnitDoneError,
    VersionConflictError,
)
from .append import Append, Stored
from .failpoint import failpoint
from .mapper import event_id, evidence_of
from .store import ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .store import LeaseRow


class Standing(Protocol):
    """What of a store tells what stands against an append."""

    def event_at(self, stream_id: UUID, version: int) -> tuple[int, bytes] | None:
        """Position and bytes of one event."""

    def version_of(self, stream_id: UUID) -> int:
        """The last version of a stream; 0 if there is none."""

    def unit_states(self, job_id: UUID, units: Sequence[str]) -> dict[str, bytes]:
        """Stored unit-completed bytes by unit key."""

    def receipt(self, request_id: str) -> tuple[str, str, str, str] | None:
        """What a command of this request id was answered."""

    def count_units(self, job_id: UUID) -> int:
        """How many unit results a job has."""

    def lease(self, job_id: UUID) -> LeaseRow | None:
        """The job's lease row."""

    def lease_now(self) -> int:
        """The clock that ends leases."""

    def boot_id(self) -> str:
        """The boot that it counts from."""


def diagnose(store: Standing, append: Append) -> Stored:
    """Where a refused *append* is, or what stands against it; see ``Store.diagnose``."""
    failpoint("append.diagnosing")
    job = append.stream_id
    found = store.event_at(job, append.expected + 1)
    if found and append.event_id and event_id(found[1]) == append.event_id:
        return Stored(found[0])
    _check_lease(store, append)
    for unit, index in append.units:
        stored = store.unit_states(job, [unit]).get(unit)
        if stored is not None:
            same = evidence_of(stored) == evidence_of(append.events[index].state)
            raise (UnitDoneError if same else UnitConflictError)(job, unit)
    if append.receipt is not None and store.receipt(append.receipt.request_id) is not None:
        text = f"request id {append.receipt.request_id!r} was already used; use a new one"
        raise RequestConflictError(job, text)
    if found or store.version_of(job) != append.expected:
        raise VersionConflictError(job, append.expected)
    if append.evidence is not None and (have := store.count_units(job)) != append.evidence:
        raise IncompleteError(job, f"{have} unit results are stored, {append.evidence} are due")
    if append.grant is not None and append.grant.exclusive_key:
        raise ExclusiveKeyHeldError(job, f"exclusive key {append.grant.exclusive_key!r} is held")
    raise ConflictError(f"nothing stands against version {append.expected + 1} of {job}")


def _check_lease(store: Standing, append: Append) -> None:
    """Whether the lease that *append* needs, or would end, is as it expects."""
    want = append.fence or append.takeover
    if want is None:
        return
    lease = store.lease(append.stream_id)
    if lease is None or lease.token != want.token:
        raise LeaseLostError(append.stream_id, want.token.grant)
    live = lease.lease_until > store.lease_now() and lease.boot_id == store.boot_id()
    if append.fence is not None and not live:
        raise LeaseLostError(append.stream_id, want.token.grant)
    if append.takeover is not None and live and not append.takeover.proven:
        raise LeaseHeldError(append.stream_id, lease.worker)
