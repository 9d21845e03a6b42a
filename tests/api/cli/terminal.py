"""The command line as tests use it: inside this process, or in one of its own."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from click.testing import CliRunner

from joblog.api.cli.main import cli
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog

ROOT = Path(__file__).parents[3]
ADA = Actor("ada", text="because")
APP = ("--app", "tests.api.cli.jobs_of_a_user:jobs")
SECONDS = 30.0  #: no process of a test may take longer, unless it says so


class Answer(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def refusal(self) -> str:
        """The code of the refusal, which is the second line on stderr."""
        first, second = self.err.splitlines()[:2]
        assert first.startswith("error: ")
        return second.removeprefix("code: ")


def joblog(*args: str, stdin: str = "") -> Answer:
    """Run a command in this process; what is not a refusal comes out as it is."""
    result = CliRunner().invoke(cli, args, input=stdin, catch_exceptions=False, prog_name="joblog")
    return Answer(result.exit_code, result.stdout, result.stderr)


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONUNBUFFERED": "1"} | more


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "joblog", *args]


def run(*args: str, stdin: str = "", cwd: Path | None = None, seconds: float = SECONDS, **env: str) -> Answer:
    """Run a command in a process of its own."""
    done = subprocess.run(
        command(*args),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=cwd,
        env=environment(**env),
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@contextmanager
def started(*args: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs beside the test, and not longer."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(*args), stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment(**env))
    with process:
        try:
            yield process
        finally:
            process.kill()


def submit(log: JobLog, key: str = "k", **more: Any) -> str:
    """A job in the log; answers its id."""
    fields: dict[str, Any] = {"kind": "demo.kind", "args": {"n": 1}, "owner": "mira", **more}
    return str(log.submit(JobSpec(key=key, **fields)).job_id)


def claimed(log: JobLog, worker: str = "host-1", **more: Any) -> Held:
    """The one due job, held by *worker*; due by the clock of the store, which may come a little later than ours."""
    tick = threading.Event()
    for _ in range(500):
        log.promote()
        if held := log.claim(worker, limit=1, **more):
            return held[0]
        tick.wait(0.01)
    raise TimeoutError("nothing is due")


def work(held: Held, *numbers: int) -> None:
    """Do these units."""
    for number in numbers:
        held.complete_units([(f"rows:{number}", {"rows": 5})], cursor={"n": number}, tallies={"rows": 5 * number})


def give_up(log: JobLog, held: Held, by: str = "host-2") -> None:
    """Its holder died, and *by* has the proof."""
    lease = log.store.lease(held.job_id)
    assert lease is not None
    log.reclaim(lease, by)


def level(answer: Answer, name: str) -> str:
    """What `doctor --json` says of one check."""
    found: str = next(check["level"] for check in answer.document["checks"] if check["name"] == name)
    return found


def row(log: JobLog, job_id: str) -> dict[str, Any]:
    found = log.store.job(UUID(job_id))
    assert found is not None
    return found


def until_done(log: JobLog, job_id: str, units: int) -> None:
    tick = threading.Event()
    for _ in range(2000):
        if row(log, job_id)["done"] >= units:
            return
        tick.wait(0.01)
    raise TimeoutError(job_id)
