"""What the author of an operation raises, and what the worker refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..domain.errors import InputError, RefusedError, StoreError
from ..domain.withheld import scrub

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID


class OperationError(Exception):
    """Base of what an operation raises on purpose."""


class Fatal(OperationError):  # noqa: N818 - reads as a verdict where it is raised
    """A verdict about the input: the job ends as failed, kept for a retry by hand.

    *code* is a short stable word for programs; *details* go into the stored text.
    """

    def __init__(self, code: str, text: str = "", **details: Any) -> None:
        said = ", ".join(f"{name}={value}" for name, value in details.items())
        super().__init__(": ".join(part for part in (code, text, said) if part))
        self.code = scrub(code)


class RetryLater(OperationError):  # noqa: N818 - reads as a wish where it is raised
    """A passing fault: try this unit again, after *after* or at *at* if given, else by the operation's back-off.

    *category*: provider, network, storage or credential; when the attempts are spent the job is paused, not failed.
    """

    def __init__(
        self,
        code: str,
        text: str = "",
        *,
        after: timedelta | None = None,
        at: datetime | None = None,
        category: str = "provider",
    ) -> None:
        super().__init__(": ".join(part for part in (code, text) if part))
        self.code, self.after, self.at, self.category = scrub(code), after, at, category


class ProviderWaits(RetryLater):
    """A provider said when it takes the next request: tried again then, whatever our own back-off says.

    *lengthens*: it only said so beside its answer (a reset), so a longer back-off of ours stands.  Longer than a day
    ahead, the job is paused with the reason and the instant, and nothing but an operator resumes it.
    """

    def __init__(self, code: str, text: str, *, at: datetime, origin: str, gate: str, lengthens: bool = False) -> None:
        super().__init__(code, text, at=at)
        self.until = at
        self.origin, self.gate, self.lengthens = origin, gate, lengthens


class NeedsOperator(OperationError):  # noqa: N818 - reads as a state where it is raised
    """Something outside the input is missing (a file, a credential, a table): the job is paused with *code* at once."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(": ".join(part for part in (code, text) if part))
        self.code = scrub(code)


class UnknownKindError(RefusedError):
    """No operation of this kind is registered."""

    code = "unknown-kind"

    def __init__(self, kind: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no operation {kind!r} is registered; known are: {', '.join(known) or 'none'}")
        self.kind = kind


class ArgumentError(InputError):
    """Arguments that do not fit the operation's declared type."""

    code = "invalid-arguments"


class AtomicTooLongError(StoreError):
    """A transactional unit held SQLite's write lock past its budget; it was undone."""

    code = "atomic-too-long"


class AtomicUnavailableError(StoreError):
    """``atomic()`` where the user's rows and the log can't share a commit."""

    code = "atomic-unavailable"


class ListChangedError(StoreError):
    """The stored list of items is not the one the log vouches for."""

    code = "list-changed"

    def __init__(self, job_id: UUID, name: str) -> None:
        super().__init__(f"job {job_id}: the stored list {name!r} does not match its digest in the log")


class Stopped(BaseException):
    """Unwinds the job's function at a durable verb; not an ``Exception``, so that no handler of the user swallows it.

    *cause*: shutdown, yield, wait, wish, lease-lost; gate, with the name of it.
    """

    def __init__(self, cause: str, due_at: datetime | None = None, *, gate: str = "") -> None:
        super().__init__(cause)
        self.cause, self.due_at, self.gate = cause, due_at, gate
