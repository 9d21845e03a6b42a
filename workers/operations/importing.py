"""How ``import.file`` works; loaded by the worker that runs one, not by who submits it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ...eventstore.failpoint import failpoint
from ..errors import Fatal, NeedsOperator
from .errors import SourceError, SourceMissingError
from .plan import Plan
from .planning import Declared, make_plan
from .sources import FileSource
from .target import Target
from .target_table import TargetSpec
from .target_url import check_url, missing_variable, resolve_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..run import SyncRun
    from ..run_batches import SyncBatch
    from .import_file import ImportFile
    from .rows import Row


def run_import(run: SyncRun, args: ImportFile) -> dict[str, int]:
    """Import the file; returns how many rows were written and how many were refused."""
    check_url(args.target)
    with _reported():
        plan = Plan.from_state(run.step("plan", _plan, args))
        failpoint("import.planned")
        engine = _other_database(run, args.target)
        try:
            _import(run, args, plan, engine)
        finally:
            if engine is not None:
                engine.dispose()
    return {"rows": run.total("rows"), "rejected": run.total("rejected")}


@contextmanager
def _reported() -> Iterator[None]:
    """A file that is away waits for an operator; one that is another or broken is a verdict."""
    try:
        yield
    except SourceMissingError as error:
        raise NeedsOperator(error.code, str(error)) from error
    except SourceError as error:
        raise Fatal(error.code, str(error)) from error


def _plan(args: ImportFile) -> dict[str, Any]:
    declared = Declared(
        format=args.format, encoding=args.encoding, header=args.header, names=args.names, dialect=args.dialect
    )
    return make_plan(args.source, declared).to_state()


def _import(run: SyncRun, args: ImportFile, plan: Plan, engine: sa.Engine | None) -> None:
    target = _prepare(run, args, plan, engine)
    failpoint("import.prepared")
    for batch in run.batches("rows", FileSource(plan), size=args.batch, into=engine):
        fitted = target.fit(batch)
        _judge(run, args, batch, fitted.refused)
        with batch.atomic() as connection:
            refused = target.write(connection, fitted)
            failpoint("import.written")
            _judge(run, args, batch, refused)
            batch.tally("rows", len(fitted.rows) - len(refused))
        if args.pace:
            run.sleep(min(args.pace, 1.0))


def _judge(run: SyncRun, args: ImportFile, batch: SyncBatch[Row], refused: list[Row]) -> None:
    """Bad rows: stop with the first one's place and reason, or keep each with its own, up to the limit."""
    for row in refused:
        problem = row.problem
        assert problem is not None  # noqa: S101 - refused rows have one
        where = f"line {problem.line}" + (f", column {problem.column!r}" if problem.column else "")
        over = run.total("rejected") + batch.tallied.get("rejected", 0) >= args.bad_rows_limit
        if args.bad_rows == "stop" or problem.ends_reading or over:
            text = f"{where}: {problem.code.value}: {problem.text}"
            raise Fatal("bad-row", text if not over else f"more than {args.bad_rows_limit} bad rows; {text}")
        batch.reject(row.number, problem.code.value, f"{where}: {problem.text}")


def _prepare(run: SyncRun, args: ImportFile, plan: Plan, engine: sa.Engine | None) -> Target:
    spec = TargetSpec(
        table=args.table,
        schema=args.schema,
        key=args.key,
        columns=args.columns,
        null=args.null,
        row_key=args.row_key,
    )
    source = f"{run.job_id}/{plan.digest.sha256}"
    with run.transaction() if engine is None else engine.begin() as connection:
        return Target.prepare(connection, spec, plan.columns, source=source, is_fixed=plan.is_fixed)


def _other_database(run: SyncRun, target: str) -> sa.Engine | None:
    """An engine for the target, or None if it is the log's own database."""
    if name := missing_variable(target, os.environ):
        text = (
            f"variable {name}, the target's URL, is not set where this worker runs; set it there, then resume the job"
        )
        raise NeedsOperator("credential-missing", text)
    url = resolve_url(target, os.environ)
    if run.is_own_database(url):
        return None
    return sa.create_engine(url, poolclass=sa.NullPool)
