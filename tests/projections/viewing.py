"""Looking at the views from outside: everything they hold, and followers that tests step."""

from typing import Any

from joblog.eventstore.view_schema import view_state
from joblog.eventstore.views import dumped
from joblog.projections.runner import Runner
from joblog.projections.view import View
from joblog.projections.view_verify import RowDifference, Verified, verify
from joblog.projections.views import VIEWS
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend, SqlBackend

Held = dict[str, list[dict[str, Any]]]
ALL = tuple(VIEWS.values())


def runner(log: JobLog, owner: str = "me", *, batch: int = 2000) -> Runner:
    return Runner(log.store, log.mapper, owner, batch=batch)


def held(log: JobLog, view: View) -> Held:
    """Every row of the live generation, and what the view remembers."""
    with log.store.views.dump(view.name) as dump:
        return {
            table.name: [dict(zip(dumped(table), row, strict=True)) for row in dump.values(table)]
            for table in (*view.tables, view_state)
        }


def all_held(log: JobLog) -> dict[str, Held]:
    return {view.name: held(log, view) for view in ALL}


def differences(log: JobLog, view: View) -> list[RowDifference]:
    found: list[RowDifference] = []
    assert verify(log.store, log.mapper, view, found=found.append).differences == len(found)
    return found


def verified(log: JobLog, view: View) -> Verified:
    return verify(log.store, log.mapper, view)


def spoil(backend: Backend, table: str, **columns: Any) -> None:
    """Make every row of a view's table say something else."""
    if isinstance(backend, SqlBackend):
        changes = ", ".join(f'"{name}" = ?' for name in columns)
        backend.run(f"UPDATE {table} SET {changes}", *columns.values())
    else:
        for (name, _), rows in backend.store.views._tables.items():  # type: ignore[attr-defined]
            if name == table:
                for row in rows.values():
                    row.update(columns)
