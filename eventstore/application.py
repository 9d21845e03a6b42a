"""The library's Application on our store: Repository, EventStore and snapshots as they are, with a lean ``save``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import BaseAggregate
from eventsourcing.persistence import Mapper, Recording, Transcoder
from eventsourcing.utils import Environment

from ..domain.job import Job, fold
from .mapper import OrjsonMapper, OrjsonTranscoder
from .recorder import StoreFactory, StoreRecorder

if TYPE_CHECKING:
    from eventsourcing.persistence import ApplicationRecorder, InfrastructureFactory

    from ..domain.ports import Ids


_LOST: Final = 2**62  #: a version that no stream is at


class LogApplication(Application[UUID]):
    """Reads and writes any aggregate of the log; jobs are written by the commands, which also keep their rows."""

    name = "joblog"
    is_snapshotting_enabled = True

    def __init__(self, recorder: StoreRecorder, ids: Ids) -> None:
        self._store_recorder, self._ids = recorder, ids
        super().__init__()

    def construct_env(self, name: str, env: Any = None) -> Environment:
        """Our own settings only: an embedded library must not read the host's environment."""
        return Environment(name, {"IS_SNAPSHOTTING_ENABLED": "y", **(env or {})})

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        """Recorders over the open store."""
        return StoreFactory(env, self._store_recorder)

    def construct_transcoder(self) -> Transcoder:
        """Orjson."""
        return OrjsonTranscoder()

    def construct_mapper(self) -> Mapper[UUID]:
        """orjson, restoring instants by field name."""
        return OrjsonMapper(OrjsonTranscoder(), self._ids)

    def construct_recorder(self) -> ApplicationRecorder:
        """The log."""
        return self._store_recorder

    def save(self, *objs: Any, **kwargs: Any) -> list[Recording[UUID]]:
        """Append the pending events of *objs*; after an error they are ahead of their streams, and never saved again."""
        events = [event for obj in objs if obj is not None for event in obj.collect_events()]
        try:
            return self.events.put(events, **kwargs)
        except BaseException:
            for obj in objs:
                if isinstance(obj, BaseAggregate):
                    obj._version = _LOST  # noqa: SLF001 - the library offers no other way
            raise

    def job(self, job_id: UUID, *, version: int | None = None) -> Job:
        """The job as its events tell it, now or at *version*."""
        return self.repository.get(job_id, version=version, projector_func=fold)
