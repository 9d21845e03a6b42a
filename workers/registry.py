"""Which kind of job is which function: what the author of an operation declares."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar, Unpack, get_type_hints, overload

import msgspec

from ..domain import storable
from ..domain.errors import InvalidFieldError
from ..domain.retry import RetryPolicy
from ..domain.spec import JobSpec
from ..eventstore.gates import GateLimits
from .errors import ArgumentError, UnknownKindError
from .provider import Provider, checked_form

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from uuid import UUID

    import sqlalchemy as sa

    from .commands.answers import Submitted
    from .commands.log import JobLog
    from .outbound.retry_after import ResetForm
    from .run import Run, SyncRun

A = TypeVar("A")
R = TypeVar("R")
LARGEST_COMMIT: Final = 1000  #: units
_LONGEST_SPACING: Final = 86_400.0  # seconds
Guarantee = Literal["exactly-once", "at-least-once"]


class ChildOptions(TypedDict, total=False):
    """How a job is handed in, instead of what its operation says (see ``JobSpec``)."""

    owner: str
    queue: str | None
    priority: int | None
    due_at: datetime | None
    tags: tuple[str, ...]


class SubmitOptions(ChildOptions, total=False):
    """The same for a job of its own."""

    key: str
    tenant: str


class OperationOptions(TypedDict, total=False):
    """What an author declares of an operation: the fields of ``Operation``."""

    queue: str
    priority: int
    retry: RetryPolicy
    exclusive: str | None
    gate: str
    timeout: float | None
    on_unit_failure: Literal["stop", "skip"]
    skip_limit: int
    guarantee: Guarantee
    units_per_commit: int


@dataclass(frozen=True)
class Operation(Generic[A, R]):
    """A registered kind of job; made by ``Jobs.job``."""

    kind: str
    function: Callable[[Any, A], Any]
    args_type: Any
    queue: str = "default"
    priority: int = 5
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    exclusive: str | None = None
    gate: str = ""  #: the provider, as ``Jobs.gate`` declares it, whose gate lets its jobs through
    timeout: float | None = None  #: seconds for one call of the function, None for none
    on_unit_failure: Literal["stop", "skip"] = "stop"
    skip_limit: int = 100
    guarantee: Guarantee = "at-least-once"
    units_per_commit: int = 1  #: of tiny units; as many may run again after a crash, and each is recorded by itself

    def __post_init__(self) -> None:
        if not 1 <= self.units_per_commit <= LARGEST_COMMIT:
            problem = f"{self.units_per_commit} is not between 1 and {LARGEST_COMMIT}"
            raise InvalidFieldError("units_per_commit", problem, "give a number in between")

    @cached_property
    def is_async(self) -> bool:
        """Whether the function runs on the worker's event loop; else it gets a thread."""
        return inspect.iscoroutinefunction(self.function)

    def encode(self, args: A) -> Any:
        """*args* as plain JSON values."""
        return msgspec.json.decode(msgspec.json.encode(args))

    def decode(self, args: Any) -> A:
        """Stored JSON as the declared type.

        Raises:
            ArgumentError: it does not fit; names the path of the bad value.
        """
        try:
            made: A = msgspec.convert(args, self.args_type)
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at `")
            where = path.rstrip("`").replace("$", "args", 1) or "args"
            raise ArgumentError(where, problem, f"see what {self.kind!r} takes") from error
        return made

    def spec(
        self,
        args: A,
        *,
        key: str = "",
        tenant: str = "default",
        owner: str = "",
        queue: str | None = None,
        priority: int | None = None,
        due_at: datetime | None = None,
        tags: tuple[str, ...] = (),
        parent_id: UUID | None = None,
    ) -> JobSpec:
        """The job that would be submitted."""
        encoded = self.encode(args)
        self.decode(encoded)
        return JobSpec(
            self.kind,
            encoded,
            key=key,
            tenant=tenant,
            owner=owner,
            queue=self.queue if queue is None else queue,
            priority=self.priority if priority is None else priority,
            due_at=due_at,
            exclusive_key=self.exclusive or "",
            gate=self.gate,
            tags=tags,
            retry=self.retry,
            parent_id=parent_id,
        )

    def submit(self, log: JobLog, args: A, **options: Unpack[SubmitOptions]) -> Submitted:
        """Hand the job in (see ``JobLog.submit``)."""
        return log.submit(self.spec(args, **options))

    def submit_in(self, log: JobLog, connection: sa.Connection, args: A, **options: Unpack[SubmitOptions]) -> UUID:
        """Hand it in inside the caller's own transaction (see ``JobLog.submit_in``)."""
        return log.submit_in(connection, self.spec(args, **options))


class Jobs:
    """A registry of operations."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation[Any, Any]] = {}
        self.gates: dict[str, Provider] = {}

    def gate(
        self,
        provider: str,
        *,
        slots: int | None = None,
        spacing: float = 0.0,
        one_by_one: bool = False,
        reset_form: ResetForm = "",
    ) -> str:
        """Declare a provider's gate: requests at once, and seconds between them, over all jobs and processes.

        *one_by_one*: the spacing counts from the end of a request to the begin of the next, so that no two arrive closer
        whatever the way there costs.  *reset_form*: how the provider writes its reset header, where that is known; any
        other form is then ignored.

        Returns the name, for ``job(…, gate=…)`` and ``run.gate(…)``.  Each tenant, and each credential, passes a gate
        of its own with these limits; what an operator sets stands above them.
        """
        storable.name(provider, "provider")
        if "/" in provider:
            raise InvalidFieldError("provider", f"{provider!r} has a slash", "a credential is named behind it later")
        if provider in self.gates:
            raise InvalidFieldError("provider", f"{provider!r} is declared already", "declare each gate once")
        if one_by_one and slots not in {None, 1}:
            raise InvalidFieldError("slots", f"{slots!r} requests at once, one by one", "leave one of the two out")
        limits = gate_limits(1 if one_by_one else slots, spacing)
        self.gates[provider] = Provider(limits, one_by_one, checked_form(reset_form))
        return provider

    def job(self, kind: str, **options: Unpack[OperationOptions]) -> _Decorator:
        """Register the decorated function ``(run, args) -> result`` as *kind*.

        Options are the fields of ``Operation``.  The type of *args* is taken from its annotation.
        """
        if kind in self._operations:
            raise InvalidFieldError("kind", f"{kind!r} is registered already", "choose another name")
        return _Decorator(self, kind, options)

    def add(self, operation: Operation[Any, Any]) -> None:
        """Register a made operation."""
        self._operations[operation.kind] = operation

    def merged(self, *others: Jobs) -> Jobs:
        """All operations of this registry and *others*; a kind that two of them have is refused."""
        made = Jobs()
        for one in (self, *others):
            if twice := made.gates.keys() & one.gates.keys():
                raise InvalidFieldError("provider", f"{min(twice)!r} is declared twice", "declare each gate once")
            made.gates |= one.gates
            for kind, operation in one._operations.items():  # noqa: SLF001 - of its own kind
                if kind in made._operations:
                    raise InvalidFieldError("kind", f"{kind!r} is registered twice", "choose another name")
                made.add(operation)
        return made

    def kinds(self) -> tuple[str, ...]:
        """The registered kinds, sorted."""
        return tuple(sorted(self._operations))

    def get(self, kind: str) -> Operation[Any, Any]:
        """The operation of *kind*.

        Raises:
            UnknownKindError: none is registered.
        """
        if (operation := self._operations.get(kind)) is None:
            raise UnknownKindError(kind, self.kinds())
        return operation

    def spec(self, kind: str, args: Any, **options: Unpack[SubmitOptions]) -> JobSpec:
        """The job that *kind* with JSON *args* describes, checked against the declared type."""
        operation = self.get(kind)
        return operation.spec(operation.decode(args), **options)


class _Decorator:
    """Turns a function into a registered operation, keeping its types."""

    def __init__(self, jobs: Jobs, kind: str, options: OperationOptions) -> None:
        self._jobs, self._kind, self._options = jobs, kind, options

    @overload
    def __call__(self, function: Callable[[Run, A], Awaitable[R]]) -> Operation[A, R]: ...
    @overload
    def __call__(self, function: Callable[[SyncRun, A], R]) -> Operation[A, R]: ...
    def __call__(self, function: Any) -> Any:
        parameters = list(inspect.signature(function).parameters)
        if len(parameters) != 2:  # noqa: PLR2004 - the run and its arguments
            raise InvalidFieldError(
                "function", f"{function.__name__} takes {len(parameters)} arguments", "take (run, args)"
            )
        args_type = _type_of(function, parameters[1])
        operation: Operation[Any, Any] = Operation(self._kind, function, args_type, **self._options)
        self._jobs.add(operation)
        return operation


def gate_limits(slots: int | None, spacing: float) -> GateLimits:
    """Limits as the store has them.

    Raises:
        InvalidFieldError: no count, or no span of time.
    """
    if slots is not None and (type(slots) is not int or slots < 0):
        raise InvalidFieldError("slots", f"{slots!r} is no count", "give a whole number >= 0, or None")
    if type(spacing) not in {int, float} or not 0 <= spacing <= _LONGEST_SPACING:
        raise InvalidFieldError("spacing", f"{spacing!r} is no time from 0 to a day", "give seconds")
    return GateLimits(slots, round(spacing * 1_000_000))


def _type_of(function: Any, parameter: str) -> Any:
    """The type that *parameter* is annotated with; the other annotations may name what is not imported."""
    annotated = SimpleNamespace(__annotations__={parameter: function.__annotations__.get(parameter, Any)})
    return get_type_hints(annotated, globalns=function.__globals__)[parameter]
