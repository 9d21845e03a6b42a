"""The Spin model and the code name the same things: its transitions are commands, and have fail points of that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from joblog.eventstore.failpoint import POINTS
from joblog.eventstore.store import Store
from joblog.workers.commands.control import ACTIONS
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog

NAMES = (Path(__file__).parent / "model" / "transitions.txt").read_text(encoding="utf-8").split()
HOMES = (JobLog, Held, Store)
#: a unit of the model is a group of units in the code
ALSO = {"complete_unit": "complete_units"}


@pytest.mark.parametrize("name", NAMES)
def test_a_transition_of_the_model_is_a_command_of_the_code(name: str) -> None:
    command = ALSO.get(name, name)

    assert command in ACTIONS or any(hasattr(home, command) for home in HOMES)


def test_every_command_that_changes_a_lease_is_in_the_model() -> None:
    assert {"claim", "renew", "expire", "release", "complete", "append", *ACTIONS} - {"retry"} <= set(NAMES)


@pytest.mark.parametrize("group", ["claim", "renew", "expire", "append"])
def test_its_durable_steps_have_fail_points(group: str) -> None:
    assert any(point.startswith(f"{group}.") for point in POINTS)
