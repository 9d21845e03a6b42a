"""The campaign command: shares, proof, last line, exit code and ledger."""

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import campaign
from tests.faults.campaign import BY_NAME, CAMPAIGNS, Campaign, shares, together
from tests.faults.rig import Report

pytestmark = pytest.mark.faults


def a_report(name: str = "sqlite-answers", **fields: object) -> Report:
    made = Report(name, 1, runs=10, fired=Counter({"kill": 10}), seconds=1.0)
    vars(made).update(fields)
    return made


def never(report: Report, count: int) -> Report:
    raise AssertionError(f"{report} {count}")


def test_a_campaign_is_cut_into_shares_with_seeds_of_their_own() -> None:
    made = Campaign("c", "", never, merge=1, long=1, shard=40)

    assert shares(made, 100, 7) == [(7, 34), (8, 33), (9, 33)]
    assert shares(made, 5, 7) == [(7, 5)]
    assert len(shares(made, 1_000_000, 7)) == campaign.MOST_SHARDS


def test_a_merge_does_what_it_promises() -> None:
    merge = {each.name: each.merge for each in CAMPAIGNS}

    assert merge["sqlite-kills"] >= 1000
    assert merge["postgres-kills"] >= 100
    assert merge["worker-kills"] >= 2000
    assert merge["postgres-worker-kills"] >= 200
    assert BY_NAME["worker-kills"].long == 100_000
    assert merge["power-cuts"] >= 2000
    assert min(merge["sqlite-zombies"], merge["postgres-zombies"]) >= 50


def test_shards_are_added_up() -> None:
    whole = together(BY_NAME["sqlite-answers"], 20, [a_report(), a_report(failed=1, violations=["S1 at 7"])])

    assert (whole.runs, whole.failed, whole.passed) == (20, 1, 19)
    assert whole.fired == {"kill": 20}
    assert whole.violations == ["S1 at 7"]


def test_a_campaign_without_a_proven_fault_fails() -> None:
    assert together(BY_NAME["sqlite-answers"], 10, [a_report(fired=Counter())]).failed == 1


def test_a_campaign_that_leaves_a_point_out_fails() -> None:
    assert together(BY_NAME["sqlite-kills"], 1000, [a_report("sqlite-kills")]).failed == 1


@pytest.mark.parametrize("name", ["worker-kills", "postgres-worker-kills"])
def test_a_merge_is_enough_to_miss_no_point_of_the_workers(name: str) -> None:
    """So that a point at which nobody was killed fails it."""
    fired = Counter(dict.fromkeys(BY_NAME[name].points[1:], 7))

    assert together(BY_NAME[name], BY_NAME[name].merge, [a_report(name, fired=fired)]).failed == 1


def test_a_rig_that_breaks_is_a_failed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BY_NAME, "broken", Campaign("broken", "", never, merge=1, long=1, shard=1))

    assert campaign.run_shard("broken", 1, 1).failed == 1


def test_the_last_line_counts_and_the_ledger_gets_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "LEDGER", tmp_path / "docs" / "evidence.jsonl")

    code = campaign.main(["--only", "sqlite-answers", "--kills", "4", "--seed", "9", "--ledger"])

    lines = capsys.readouterr().out.splitlines()
    (entry,) = (json.loads(line) for line in campaign.LEDGER.read_text(encoding="utf-8").splitlines())
    assert code == 0
    assert lines[0].startswith("sqlite-answers: seed 9, ")
    assert lines[-1] == f"{entry['runs']} passed, 0 failed"
    assert entry["seeds"] == [9, 9]
    assert sum(entry["faults"].values()) >= 4
    assert entry["violations"] == 0


def test_a_campaign_that_is_told_to_stop_says_what_it_has_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "LEDGER", tmp_path / "docs" / "evidence.jsonl")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ended = threading.Event()

    def stop_once_somebody_was_killed() -> None:
        while not ended.wait(0.02):
            if any(b'"fired"' in journal.read_bytes() for journal in tmp_path.glob("joblog-faults-*/life-*/journal")):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watcher = threading.Thread(target=stop_once_somebody_was_killed)
    watcher.start()
    try:
        code = campaign.main(["--only", "worker-kills", "--kills", "100000", "--seed", "9", "--jobs", "2", "--ledger"])
    finally:
        ended.set()
        watcher.join()

    (entry,) = (json.loads(line) for line in campaign.LEDGER.read_text(encoding="utf-8").splitlines())
    assert code == 0, capsys.readouterr().out
    assert entry["stopped"]
    assert entry["wanted"] == 100_000
    assert 1 <= sum(entry["faults"].values()) < 100_000
    assert entry["violations"] == 0
    assert list(tmp_path.glob("joblog-faults-*")) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_violation_is_shown_and_makes_the_command_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = a_report(failed=1, violations=[f"run {n}: S1 at {n}" for n in range(30)])
    monkeypatch.setattr(campaign, "start_shard", lambda *_: bad)

    assert campaign.main(["--only", "sqlite-answers"]) == 1
    out = capsys.readouterr().out
    assert "run 0: S1 at 0" in out
    assert "… 10 more" in out
    assert out.endswith("9 passed, 1 failed\n")
