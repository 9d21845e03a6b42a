"""`serve` dies by SIGKILL under load and is started again: what it acknowledged is there, streams go on where they were."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from joblog import JobLog
from tests.api.cli.terminal import started
from tests.api.http.client import Client, a_key, a_token

LEAST = 25  #: acknowledged submits before each kill
KILLS = 2


@contextmanager
def served(url: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    with started("--db", url, "serve", "--port", "0") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                yield process, int(found[1])
                return


class Load:
    """Clients that submit until the service is gone, and one that follows the log."""

    def __init__(self, port: int, token: str, place: str) -> None:
        self.client, self.place = Client(port, token), place
        self.acknowledged: dict[str, str] = {}
        self.followed: list[tuple[str, str]] = []
        self.enough = threading.Event()
        self._threads = [threading.Thread(target=self._submit) for _ in range(4)]
        self._threads.append(threading.Thread(target=self._follow))
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _submit(self) -> None:
        try:
            while True:
                key = a_key()
                reply = self.client.post("/api/v1/jobs", {"kind": "load"}, Idempotency_Key=key)
                assert reply.status == 201
                self.acknowledged[key] = reply.json["id"]
                if len(self.acknowledged) >= LEAST:
                    self.enough.set()
        except (OSError, http.client.HTTPException):
            return

    def _follow(self) -> None:
        """As a browser does: the id of what was read whole is the place to come back with."""
        connection = http.client.HTTPConnection("127.0.0.1", self.client.port, timeout=30)
        headers = {"Authorization": f"Bearer {self.client.token}", "Accept": "text/event-stream"}
        fields: dict[str, str] = {}
        try:
            connection.request("GET", "/api/v1/feed?after=0", headers=headers | {"Last-Event-ID": self.place})
            answer = connection.getresponse()
            assert answer.status == 200
            while line := answer.readline().decode():
                if line == "\n" and "id" in fields:
                    self.place = fields["id"]
                    if "data" in fields:
                        self.followed.append((fields["id"], json.loads(fields["data"])["subject"]))
                    fields = {}
                elif ": " in line:
                    name, _, value = line.rstrip("\n").partition(": ")
                    fields[name] = value
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()


def test_nothing_acknowledged_is_lost_and_a_stream_has_no_gap_and_no_repeat(database_url: str) -> None:
    with JobLog.open(database_url) as log:
        token = a_token(log, "admin")
    acknowledged: dict[str, str] = {}
    followed: list[tuple[str, str]] = []
    place = "1:0"
    for _ in range(KILLS):
        with served(database_url) as (process, port):
            load = Load(port, token, place)
            assert load.enough.wait(60)
            process.kill()
            process.wait()
            load.join()
        acknowledged |= load.acknowledged
        followed += load.followed
        place = load.place
    with JobLog.open(database_url) as log:
        head = log.store.head()
        with served(database_url) as (process, port):
            last = Client(port, token).get("/api/v1/feed?after=" + place, Accept="application/x-ndjson")
            process.kill()
        rest = [json.loads(line) for line in last.body.splitlines()][:-1]
        stored = [(f"1:{event.position}", str(event.stream_id)) for event in log.store.log(0, head)]

    assert set(acknowledged.values()) <= {subject for _, subject in stored}
    assert followed + [(f"1:{int(event['sequence'])}", event["subject"]) for event in rest] == stored
    assert len(acknowledged) >= LEAST * KILLS
