"""A plan and a cursor are stored as JSON and mean the same in any process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from joblog.domain.errors import InvalidFieldError
from joblog.domain.storable import CURSOR_LIMIT, payload
from joblog.workers.operations.plan import Plan
from joblog.workers.operations.rows import Cursor, Row
from joblog.workers.operations.sources import FileSource
from tests.workers.operations.source_files import planned, read, write

FILES = [
    ("t.csv", "plain", "a;b\n" + "1;2\n" * 50),
    ("t.csv", "gzip", "a;b\n" + "1;2\n" * 50),
    ("t.ndjson", "zip", '{"a": 1}\n' * 50),
    ("t.json", "plain", "[" + ",".join(['{"a": 1}'] * 50) + "]"),
]


@pytest.mark.parametrize(("name", "kind", "content"), FILES)
def test_a_plan_survives_json_and_reads_the_same(tmp_path: Path, name: str, kind: str, content: str) -> None:
    plan = planned(write(tmp_path / name, content.encode(), kind))
    state = payload(json.loads(json.dumps(plan.to_state())), "plan")

    assert Plan.from_state(state) == plan
    assert read(Plan.from_state(state), 7) == read(plan, 7)


@pytest.mark.parametrize(("name", "kind", "content"), FILES)
def test_another_process_plans_and_reads_the_same(tmp_path: Path, name: str, kind: str, content: str) -> None:
    """UNI-13, OPS-2b: whatever the hash seed and the locale."""
    path = write(tmp_path / name, content.encode(), kind)
    code = (
        "import sys, json\n"
        "from joblog.workers.operations.planning import make_plan\n"
        "from joblog.workers.operations.sources import FileSource\n"
        "plan = make_plan(sys.argv[1])\n"
        "print(json.dumps([plan.to_state(), [repr(batch) for batch in FileSource(plan).read(7)]]))\n"
    )
    plan = planned(path)
    environment = os.environ | {"PYTHONHASHSEED": "7", "LC_ALL": "C", "PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run([sys.executable, "-c", code, str(path)], env=environment, capture_output=True, check=True)

    assert json.loads(done.stdout) == [plan.to_state(), [repr(batch) for batch in read(plan, 7)]]


@pytest.mark.parametrize("state", [None, 7, {}, [], {"path": "x"}, {"columns": 7}])
def test_what_is_no_plan_is_refused(state: Any) -> None:
    with pytest.raises(InvalidFieldError, match="no plan"):
        Plan.from_state(state)


@pytest.mark.parametrize(
    "state", [None, 7, [], {}, {"batch": 1}, {"batch": -1, "row": 1, "line": 1, "offset": 1}, [1, 1, 1, 1]]
)
def test_what_is_no_cursor_is_refused(tmp_path: Path, state: Any) -> None:
    plan = planned(write(tmp_path / "t.csv", b"a\n1\n"))

    with pytest.raises(InvalidFieldError, match="no cursor"):
        Cursor.from_state(state)
    if state is not None:
        with pytest.raises(InvalidFieldError, match="no cursor"):
            FileSource(plan).batches(7, state)


def test_a_source_is_one_of_the_engines_sources(tmp_path: Path) -> None:
    """It gives (rows, cursor) as ``workers.sources.Source`` says, with a small JSON cursor."""
    source = FileSource(planned(write(tmp_path / "t.csv", b"a\n1\n2\n3\n")))
    found = list(source.batches(2, None))

    assert found[0][0] == [Row(1, 2, {"a": "1"}), Row(2, 3, {"a": "2"})]
    assert list(source.batches(2, found[0][1])) == found[1:]
    assert len(json.dumps(payload(found[0][1], "cursor"))) < CURSOR_LIMIT


def test_a_source_can_be_read_twice_at_once(tmp_path: Path) -> None:
    source = FileSource(planned(write(tmp_path / "t.csv", b"a\n1\n2\n3\n")))

    assert [one == other for one, other in zip(source.read(1), source.read(1), strict=True)] == [True] * 3
