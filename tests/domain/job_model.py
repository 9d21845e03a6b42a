"""What a job must do, told once more and shorter: a dictionary of facts and a list of grants."""

from datetime import datetime
from typing import Any

from joblog.domain import errors as err

Answer = type[err.StateError] | None


class JobModel:
    """Each command answers the refusal to expect, or None and changes the facts."""

    def __init__(self, now: datetime, *, total: int | None, attempts: int) -> None:
        self.grants: list[int] = []
        self.facts: dict[str, Any] = {"status": "queued", "wish": "", "due_at": now, "tries": {}}
        self.facts |= dict.fromkeys(("done", "skipped", "sequence", "failures", "crashes"), 0)
        self.total, self.attempts = total, attempts

    def __getitem__(self, fact: str) -> Any:
        return self.facts[fact]

    def is_lost(self, grant: int) -> bool:
        return self["status"] != "running" or grant != self.grants[-1]

    def stop(self, status: str, **facts: Any) -> None:
        """The lease ends; an operator's wish is honoured if the job would go on."""
        wish = {"pause": "paused", "cancel": "cancelled"}.get(self["wish"], status)
        goes_on = status in {"queued", "waiting"} or self["wish"] == "cancel"
        self.facts |= facts | {"status": wish if goes_on else status, "wish": ""}

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

    def expire(self, now: datetime, *, counts: bool) -> Answer:
        if self["status"] != "running":
            return err.WrongStateError
        crashes = self["crashes"] + counts
        self.stop("paused" if crashes == 3 else "queued", crashes=crashes, due_at=now)
        return None

    def attempt(self, grant: int, unit: str) -> Answer:
        spent, _ = self["tries"].get(unit, (0, 0))
        if self.is_lost(grant):
            return err.LeaseLostError
        if spent == self.attempts:
            return err.ExhaustedError
        self["tries"][unit] = (spent + 1, grant)
        return None

    def settle(self, grant: int, units: list[str], fact: str, advance: int) -> Answer:
        if self.is_lost(grant):
            return err.LeaseLostError
        settled = self["done"] + self["skipped"] + len(units)
        past = self.total is not None and settled > self.total
        if past or not 0 <= advance <= settled - self["sequence"]:
            return err.CheckpointError
        self.facts[fact] += len(units)
        self.facts["sequence"] += advance
        self.facts["crashes"] *= advance == 0
        self.facts["tries"] = {unit: n for unit, n in self["tries"].items() if unit not in units}
        return None

    def retry(self, grant: int, unit: str, at: datetime, now: datetime) -> Answer:
        spent, counted = self["tries"].get(unit, (0, 0))
        if self.is_lost(grant):
            return err.LeaseLostError
        spent += counted != grant
        if spent >= self.attempts:
            return err.ExhaustedError
        self["tries"][unit] = (spent, grant)
        self.stop("waiting", failures=self["failures"] + 1, due_at=max(at, now))
        return None

    def end(self, grant: int, how: str, now: datetime, at: datetime | None = None) -> Answer:
        if self.is_lost(grant):
            return err.LeaseLostError
        settled, cancelled = self["done"] + self["skipped"], self["wish"] == "cancel"
        if how == "completed" and not cancelled and {self["sequence"], self.total} - {None, settled}:
            return err.IncompleteError
        failed = how in {"paused", "failed"} and not cancelled
        moved = how in {"queued", "waiting"} or (how == "paused" and not cancelled and at)
        due_at = max(at or now, now) if moved else self["due_at"]
        self.stop(how, failures=self["failures"] + failed, due_at=due_at)
        return None

    def ask(self, command: str, now: datetime) -> Answer:
        status, wish = self["status"], self["wish"]
        if status == "running":
            if wish == "cancel":
                return err.WrongStateError if command in {"cancel", "retry_now"} else err.SupersededError
            if command == "cancel" or (command, wish) == ("pause", ""):
                self.facts["wish"] = command
                return None
            if (command, wish) != ("resume", "pause"):
                return err.WrongStateError
            self.facts["wish"] = ""
        elif command in {"resume", "retry_now"} and status in {"paused", "failed"}:
            due_at = now if command == "retry_now" else max(now, self["due_at"])
            self.facts |= {"status": "queued", "due_at": due_at, "crashes": 0}
            self.facts |= {"tries": {}} if command == "retry_now" else {}
        elif command == "cancel" and status in {"queued", "waiting", "paused"}:
            self.facts["status"] = "cancelled"
        elif command == "pause" and status in {"queued", "waiting"}:
            self.facts["status"] = "paused"
        else:
            return err.WrongStateError
        return None
