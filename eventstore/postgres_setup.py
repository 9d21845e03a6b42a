"""PostgreSQL connections that are fit for the log: none outlives a lease inside a transaction."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from . import postgres_arrays as arrays

KEEPALIVE: Final = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_TRANSACTION_TIMEOUT_SINCE: Final = 170000


def make_engine(url: str | sa.URL, *, lease_seconds: float | None = 30, pooler_safe: bool = False) -> sa.Engine:
    """An engine whose every connection gives up before a lease would; without *lease_seconds* it has all the time.

    A pooler hands one session to many clients, so there nothing of the session may be set.
    """
    parsed = sa.make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    arguments: dict[str, Any] = {**KEEPALIVE, "connect_timeout": 10, "client_encoding": "utf8"}
    if pooler_safe:
        arguments["prepare_threshold"] = None
    else:
        given = parsed.normalized_query.get("options", ())  # such as a search_path: ours would take its place
        arguments["options"] = " ".join((*given, "-c synchronous_commit=on"))
    engine = sa.create_engine(parsed, connect_args=arguments, poolclass=sa.NullPool)
    sa.event.listen(engine, "connect", lambda driver, _: arrays.register(driver))
    if lease_seconds is not None and not pooler_safe:
        milliseconds = int(lease_seconds * 1000 / 3)
        sa.event.listen(engine, "connect", lambda driver, _: _bound(driver, milliseconds))
    return engine


def _bound(driver: Any, milliseconds: int) -> None:
    """No transaction of ours may outlive a third of the lease, whoever stopped us in it."""
    names = ["idle_in_transaction_session_timeout"]
    if driver.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
        names.append("transaction_timeout")
    for name in names:
        driver.execute(f"SET {name} = {milliseconds}")
    driver.commit()
