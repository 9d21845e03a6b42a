"""What is handed in: the description of a job, checked at the edge before anything is written."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from . import identity, storable, withheld
from .errors import InvalidFieldError, TooLargeError
from .retry import DEFAULT_RETRY, RetryPolicy

if TYPE_CHECKING:
    from uuid import UUID

PRIORITIES: Final = range(10)
DEFAULT_PRIORITY: Final = 5
TAGS_LIMIT: Final = 20
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class JobSpec:
    """A job to submit.

    *args* is kept as a reference to the work (ids, paths, staged keys), never as the work's data: at most 64
    KiB of JSON, without secrets.  (tenant, kind, key) names the job: the same again is the same job; with
    other *args* it is a key conflict.
    """

    kind: str
    args: Any = None
    key: str = ""  #: idempotency key; without one the log makes one up
    tenant: str = "default"
    owner: str = ""
    queue: str = "default"
    priority: int = DEFAULT_PRIORITY  #: 0 (first) to 9
    due_at: datetime | None = None
    exclusive_key: str = ""  #: at most one job of this tenant runs under it
    gate: str = ""  #: provider, or provider/credential, whose gate lets its jobs through; each tenant has its own
    tags: tuple[str, ...] = ()
    retry: RetryPolicy = DEFAULT_RETRY
    total: int | None = None  #: units, where known beforehand
    parent_id: UUID | None = None

    def __post_init__(self) -> None:
        """Check every field; raises an ``InputError`` that names the first bad one."""
        for required in ("kind", "tenant", "queue"):
            storable.name(getattr(self, required), required)
        for optional in ("key", "owner", "exclusive_key", "gate"):
            if (given := getattr(self, optional)) != "":
                storable.name(given, optional)
        self._check_numbers_and_instants()
        self._check_tags()
        storable.payload(self.args, "args")
        storable.bounded(self._encoded, "args", storable.ARGS_LIMIT)
        storable.refuse_secrets(self.args, "args")
        withheld.refuse(self._encoded, "args")
        object.__setattr__(self, "args", storable.copied(self.args))  # the digest is of what stands here now

    def with_key(self, key: str) -> JobSpec:
        """The same job under *key*; all the rest was checked already.

        Raises:
            InputError: no good key.
        """
        fields = {**vars(self), "key": storable.name(key, "key")}
        fields.pop("job_id", None)  # follows from the key
        made = object.__new__(type(self))
        object.__setattr__(made, "__dict__", fields)
        return made

    def _check_numbers_and_instants(self) -> None:
        if type(self.priority) is not int or self.priority not in PRIORITIES:
            problem = f"{self.priority!r} is no whole number 0 to 9"
            raise InvalidFieldError("priority", problem, "0 runs first, 9 last")
        if self.total is not None and (type(self.total) is not int or not 0 <= self.total < storable.INT_LIMIT):
            raise InvalidFieldError("total", f"{self.total!r} is no count of units", "leave it out if unknown")
        if self.due_at is not None and not _is_instant(self.due_at):
            raise InvalidFieldError("due_at", f"{self.due_at!r} is no instant", "give an aware datetime")
        if not isinstance(self.retry, RetryPolicy):
            raise InvalidFieldError("retry", f"{type(self.retry).__name__} is no policy", "give a RetryPolicy")

    def _check_tags(self) -> None:
        if not isinstance(self.tags, (tuple, list)):
            raise InvalidFieldError("tags", f"{type(self.tags).__name__} is no list of tags", "give a tuple")
        if len(self.tags) > TAGS_LIMIT:
            raise TooLargeError("tags", f"{len(self.tags)} tags", f"at most {TAGS_LIMIT} are kept")
        for index, tag in enumerate(self.tags):
            storable.name(tag, f"tags[{index}]")

    @cached_property
    def _encoded(self) -> bytes:
        return _CANONICAL.encode(self.args).encode()

    @cached_property
    def args_digest(self) -> str:
        """SHA-256 of the canonical arguments (keys sorted, UTF-8)."""
        return hashlib.sha256(self._encoded).hexdigest()

    @cached_property
    def job_id(self) -> UUID:
        """The id that follows from tenant, kind and key; of a child, from its parent and key."""
        if self.parent_id is not None:
            return identity.child_id(self.parent_id, self.key)
        return identity.job_id(self.tenant, self.kind, self.key)

    def to_event(self, now: datetime) -> dict[str, Any]:
        """The fields of ``Submitted``."""
        return {
            "kind": self.kind,
            "tenant": self.tenant,
            "owner": self.owner,
            "queue": self.queue,
            "priority": self.priority,
            "args": self.args,
            "args_digest": self.args_digest,
            "key": self.key,
            "due_at": now if self.due_at is None else self.due_at.astimezone(UTC),
            "exclusive_key": identity.exclusive(self.tenant, self.exclusive_key),
            "gate": identity.gate(self.tenant, self.gate),
            "tags": tuple(self.tags),
            "retry": self.retry.to_state() or None,
            "total": self.total,
            "parent_id": str(self.parent_id) if self.parent_id else "",
        }


def _is_instant(value: object) -> bool:
    """Whether it is one moment on every clock: aware, and within the years that UTC can name."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return False
    try:
        value.astimezone(UTC)
    except OverflowError:
        return False
    return True
