"""`serve` is killed under load and started again: no acknowledged submit is lost, streams go on without gap or repeat."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import started
from tests.api.http.client import a_token

SUBMITTERS, JOBS, STREAMS, KILLS = 3, 40, 2, 2
PATIENCE = 60.0


class Service:
    """A service that may be gone; whoever asks it waits for the next one."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {token}"}
        self._stack = ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self._there = threading.Condition()
        self._port = 0

    def start(self) -> None:
        process = self._stack.enter_context(started("--db", self._url, "serve", "--port", "0"))
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r" on http://127\.0\.0\.1:(\d+);", said)):
            line = process.stderr.readline()
            assert line, f"it did not start: {said}"
            said += line
        threading.Thread(target=process.stderr.read, daemon=True).start()  # so that no full pipe stops it
        with self._there:
            self._process, self._port = process, int(found[1])
            self._there.notify_all()

    def kill(self) -> None:
        process = self._process
        assert process is not None
        with self._there:
            self._port = 0
        process.kill()
        process.wait(PATIENCE)

    def close(self) -> None:
        self._stack.close()

    @contextmanager
    def asked(self, method: str, path: str, body: Any = None, **headers: str) -> Iterator[http.client.HTTPResponse]:
        with self._there:
            assert self._there.wait_for(lambda: self._port, PATIENCE)
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        sent = {**self._headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            yield connection.getresponse()
        finally:
            connection.close()


class Submitter(threading.Thread):
    """Hands jobs in, each until it is acknowledged."""

    def __init__(self, service: Service, name: str, told: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._service, self._told = service, told
        self.acknowledged: dict[UUID, int] = {}

    def run(self) -> None:
        for number in range(JOBS):
            made = self._submitted(f"killed-{self.name}-{number:010d}", number)
            self.acknowledged[UUID(made["id"])] = made["position"]
            self._told()

    def _submitted(self, key: str, number: int) -> dict[str, Any]:
        while True:
            body = {"kind": "import", "args": number}
            try:
                with self._service.asked(
                    "POST", "/api/v1/jobs", body, Idempotency_Key=key, Content_Type="application/json"
                ) as answer:
                    raw = answer.read()
                    if answer.status in {200, 201}:
                        return dict(json.loads(raw))
            except (OSError, http.client.HTTPException):
                continue  # nobody knows whether it is in the log: the same again


class Follower(threading.Thread):
    """Follows the log, and comes back behind the last event that was whole."""

    def __init__(self, service: Service, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._service = service
        self._place = ""
        self.positions: list[int] = []
        self.moved = threading.Condition()
        self.over = False

    def run(self) -> None:
        while not self.over:
            try:
                self._follow()
            except (OSError, http.client.HTTPException, ValueError):
                continue

    def _follow(self) -> None:
        place = {"Last_Event_ID": self._place} if self._place else {}
        with self._service.asked("GET", "/api/v1/feed?after=0", Accept="text/event-stream", **place) as answer:
            assert answer.status == 200, answer.read()
            fields: dict[str, str] = {}
            while (line := answer.readline()).endswith(b"\n") and not self.over:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if line != b"\n":
                    fields[name] = value
                    continue
                self._place = fields.get("id", self._place)
                if "data" in fields:
                    with self.moved:
                        self.positions.append(int(json.loads(fields["data"])["sequence"]))
                        self.moved.notify_all()
                fields = {}

    def reached(self, position: int) -> bool:
        with self.moved:
            return self.moved.wait_for(lambda: bool(self.positions) and self.positions[-1] >= position, PATIENCE)


def test_no_acknowledged_submit_is_lost_and_streams_go_on(database_url: str) -> None:
    with JobLog.open(database_url) as log:
        service = Service(database_url, a_token(log, "admin"))
        more, count = threading.Condition(), [0]

        def told() -> None:
            with more:
                count[0] += 1
                more.notify_all()

        submitters = [Submitter(service, f"submitter-{number}", told) for number in range(SUBMITTERS)]
        followers = [Follower(service, f"follower-{number}") for number in range(STREAMS)]
        try:
            service.start()
            for thread in (*submitters, *followers):
                thread.start()
            for kill in range(1, KILLS + 1):
                with more:
                    goal = kill * SUBMITTERS * JOBS // (KILLS + 2)
                    assert more.wait_for(lambda goal=goal: count[0] >= goal, PATIENCE)  # type: ignore[misc]
                service.kill()
                service.start()
            for submitter in submitters:
                submitter.join(PATIENCE)
                assert len(submitter.acknowledged) == JOBS
            head = log.store.head()
            assert all(follower.reached(head) for follower in followers)
        finally:
            for follower in followers:
                follower.over = True
            service.close()

        for submitter in submitters:
            for job_id, position in submitter.acknowledged.items():
                assert log.store.position_of(job_id, 1) == position
        assert head == SUBMITTERS * JOBS  # each once, however often it was sent
        for follower in followers:
            assert follower.positions == list(range(1, head + 1))
