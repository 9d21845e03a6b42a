"""The children and items that a run hands out: what they record is driven by the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from . import children, items

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

T = TypeVar("T")
R = TypeVar("R")


class Drive(Protocol):
    """Appends what a script yields, without blocking the loop."""

    async def __call__(self, script: Generator[Any, Any, R]) -> R:
        """What the script returns."""


class SyncDrive(Protocol):
    """The same in a thread."""

    def __call__(self, script: Generator[Any, Any, R]) -> R:
        """What the script returns."""


class Child(Generic[R]):
    """A child of an async run."""

    def __init__(self, handle: children.ChildHandle[R], drive: Drive) -> None:
        self._handle, self._drive, self.job_id = handle, drive, handle.job_id

    async def result(self) -> R:
        """What the child returned; raises ``ChildFailed`` if it failed or was cancelled."""
        return await self._drive(self._handle.waiting())


class SyncChild(Generic[R]):
    """A child of a run in a thread."""

    def __init__(self, handle: children.ChildHandle[R], drive: SyncDrive) -> None:
        self._handle, self._drive, self.job_id = handle, drive, handle.job_id

    def result(self) -> R:
        """As ``Child.result``."""
        return self._drive(self._handle.waiting())


class Item(items.BaseItem[T], Generic[T]):
    """An item of an async run."""

    def __init__(self, *args: Any, drive: Drive) -> None:
        super().__init__(*args)
        self._drive = drive

    @overload
    async def once(self, phase: str, function: Callable[..., Awaitable[R]], *args: Any) -> R: ...
    @overload
    async def once(self, phase: str, function: Callable[..., R], *args: Any) -> R: ...
    async def once(self, phase: str, function: Callable[..., Any], *args: Any) -> Any:
        """The result of ``function(*args)``, once for this item and phase."""
        return await self._drive(self.phase(phase, function, args))


class SyncItem(items.BaseItem[T], Generic[T]):
    """An item of a run in a thread."""

    def __init__(self, *args: Any, drive: SyncDrive) -> None:
        super().__init__(*args)
        self._drive = drive

    def once(self, phase: str, function: Callable[..., R], *args: Any) -> R:
        """As ``Item.once``."""
        made: R = self._drive(self.phase(phase, function, args))
        return made
