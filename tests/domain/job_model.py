"""What a job must do, told once more and shorter: a dictionary of facts and a list of grants."""

from datetime import datetime
from typing import Any

from joblog.domain import errors as err

Answer = type[err.StateError] | None


class JobModel:
    """Each command answers the refusal to expect, or None and changes the facts.  A holder's assume its token."""

    def __init__(self, now: datetime, *, total: int | None, attempts: int) -> None:
        self.grants: list[int] = []
        self.facts: dict[str, Any] = {"status": "queued", "wish": "", "due_at": now, "tries": {}, "tallies": {}}
        self.facts |= dict.fromkeys(("done", "skipped", "sequence", "failures", "crashes"), 0)
        self.total, self.attempts, self.waits_for_child = total, attempts, False

    def __getitem__(self, fact: str) -> Any:
        return self.facts[fact]

    def is_lost(self, grant: int) -> bool:
        return self["status"] != "running" or grant != self.grants[-1]

    def stop(self, status: str, **facts: Any) -> None:
        """The lease ends; a cancel is always honoured, a pause if the job would go on."""
        wished = {"pause": "paused", "cancel": "cancelled"}.get(self["wish"], status)
        goes_on = status in {"queued", "waiting"} or self["wish"] == "cancel"
        self.facts |= facts | {"status": wished if goes_on else status, "wish": ""}
        self.waits_for_child = False

    def claim(self, now: datetime) -> Answer:
        if self["status"] == "running":
            return err.LeaseHeldError
        if self["status"] not in {"queued", "waiting"}:
            return err.WrongStateError
        if self["due_at"] > now:
            return err.NotDueError
        self.grants.append(len(self.grants) + 1)
        self.facts["status"] = "running"
        return None

    def expire(self, now: datetime, *, counts: bool) -> None:
        crashes = self["crashes"] + counts
        self.stop("paused" if crashes == 3 else "queued", crashes=crashes, due_at=now)

    def attempt(self, unit: str) -> Answer:
        spent, _ = self["tries"].get(unit, (0, 0))
        if spent == self.attempts:
            return err.ExhaustedError
        self["tries"][unit] = (spent + 1, self.grants[-1])
        return None

    def settle(self, units: list[str], fact: str, advance: int, tallies: dict[str, int] | None = None) -> Answer:
        settled = self["done"] + self["skipped"] + len(units)
        past = self.total is not None and settled > self.total
        if past or not 0 <= advance <= settled - self["sequence"]:
            return err.CheckpointError
        self.facts[fact] += len(units)
        self.facts["sequence"] += advance
        self.facts["crashes"] *= advance == 0
        self.facts["tallies"] = self["tallies"] if tallies is None else tallies
        self.facts["tries"] = {unit: tried for unit, tried in self["tries"].items() if unit not in units}
        return None

    def retry(self, unit: str, at: datetime, now: datetime) -> Answer:
        spent, grant = self["tries"].get(unit, (0, 0))
        spent += grant != self.grants[-1]
        if spent >= self.attempts:
            return err.ExhaustedError
        self["tries"][unit] = (spent, self.grants[-1])
        self.stop("waiting", failures=self["failures"] + 1, due_at=max(at, now))
        return None

    def end(self, how: str, now: datetime, at: datetime | None = None) -> Answer:
        settled, cancelled = self["done"] + self["skipped"], self["wish"] == "cancel"
        if how == "completed" and not cancelled and {self["sequence"], self.total} - {None, settled}:
            return err.IncompleteError
        failed = how in {"paused", "failed"} and not cancelled
        moved = how in {"queued", "waiting"} or (how == "paused" and not cancelled and at)
        due_at = max(at or now, self["due_at"]) if moved else self["due_at"]
        self.stop(how, failures=self["failures"] + failed, due_at=due_at)
        return None

    def await_gate(self, unit: str, at: datetime | None, now: datetime) -> Answer:
        spent, grant = self["tries"].pop(unit, (0, 0))
        if spent := spent - (grant == self.grants[-1]):
            self["tries"][unit] = (spent, 0)
        self.stop("waiting", due_at=max(at or now, self["due_at"]))
        return None

    def wake(self, now: datetime) -> bool:
        if self.waits_for_child and self["status"] == "waiting":
            self.facts["due_at"] = now
            return True
        return False

    def ask(self, command: str, now: datetime) -> Answer:
        match self["status"], self["wish"], command:
            case "running", "cancel", "pause" | "resume":
                return err.SupersededError
            case ("running", "" | "pause", "cancel") | ("running", "", "pause"):
                self.facts["wish"] = command
            case "running", "pause", "resume":
                self.facts["wish"] = ""
            case "paused" | "failed", _, "resume":
                self.facts |= {"status": "queued", "due_at": max(now, self["due_at"]), "crashes": 0}
            case "paused" | "failed", _, "retry_now":
                self.facts |= {"status": "queued", "due_at": now, "crashes": 0, "tries": {}}
            case "queued" | "waiting" | "paused", _, "cancel":
                self.facts["status"] = "cancelled"
            case "queued" | "waiting", _, "pause":
                self.facts["status"] = "paused"
            case _:
                return err.WrongStateError
        return None
