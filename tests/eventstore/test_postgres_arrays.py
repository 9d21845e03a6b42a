"""Arrays that are packed by hand arrive as what they are."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joblog.eventstore import postgres_arrays as arrays

pytestmark = pytest.mark.postgres

TEXTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]))
KINDS: dict[str, tuple[Any, Any]] = {
    "uuid[]": (st.lists(st.uuids()), lambda values: arrays.uuids([value.bytes for value in values])),
    "bigint[]": (st.lists(st.integers(-(2**63), 2**63 - 1)), arrays.bigints),
    "text[]": (st.lists(st.none() | TEXTS), arrays.texts),
    "bytea[]": (st.lists(st.binary()), arrays.byteas),
}


@pytest.fixture(scope="module")
def connection(postgres_server: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.replace("+psycopg", ""), client_encoding="utf8") as connection:
        arrays.register(connection)
        yield connection


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_packed_array_arrives_as_it_was(connection: psycopg.Connection[Any], kind: str, data: st.DataObject) -> None:
    strategy, pack = KINDS[kind]
    values = data.draw(strategy)

    (found,) = connection.execute("SELECT %b", [pack(values)]).fetchone()  # type: ignore[misc]

    assert found == values


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_array_has_its_type_and_begins_at_one(connection: psycopg.Connection[Any], kind: str) -> None:
    value: Any = {"uuid[]": UUID(int=7), "text[]": "a", "bytea[]": b"b"}.get(kind, 7)
    row = connection.execute(
        "SELECT pg_typeof(a)::text, array_lower(a, 1), array_ndims(a) FROM (SELECT %b AS a) x",
        [KINDS[kind][1]([value])],
    ).fetchone()

    assert row == ({"int[]": "integer[]"}.get(kind, kind), 1, 1)


def test_topics_are_texts(connection: psycopg.Connection[Any]) -> None:
    values = ["joblog.job.claimed", "joblog.job.completed", "joblog.job.claimed"]

    assert connection.execute("SELECT %b", [arrays.topics(values)]).fetchone() == (values,)
