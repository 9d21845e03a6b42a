"""What `doctor` says of tree, heads and consumers."""

from collections.abc import Callable
from pathlib import Path

from joblog.eventstore.proof_rows import HeadRow, proof_rows
from joblog.projections.feed.consumers import Consumer
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, Answer, joblog, level, submit

Cli = Callable[..., Answer]
DAY = 86_400_000_000


def text(answer: Answer, name: str) -> str:
    return next(str(check["text"]) for check in answer.document["checks"] if check["name"] == name)


def test_a_log_without_evidence_is_no_worse_for_it(log: JobLog, cli: Cli) -> None:
    submit(log)
    answer = cli("doctor", "--json")

    assert [level(answer, name) for name in ("tree", "heads", "consumers")] == ["ok"] * 3
    assert text(answer, "tree") == "1 event not yet in the tree of hashes"
    assert text(answer, "heads").startswith("nothing is signed")


def test_what_is_signed_and_who_follows(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    submit(log)
    joblog("heads", "keygen", str(tmp_path / "key"))
    cli("heads", "sign", "--key", str(tmp_path / "key"))
    Consumer.open(log.store, "audit")
    submit(log, "2")

    answer = cli("doctor", "--json")
    assert text(answer, "heads").startswith("1 event not yet signed, the last head was")
    assert text(answer, "consumers") == "1 consumer, at most 2 events behind"
    assert level(answer, "heads") == "ok"

    [row] = proof_rows(log.store).heads()
    proof_rows(log.store).put_head(HeadRow(0, 1, row.signed_at, row.note))
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute(f"UPDATE tree_heads SET signed_at = signed_at - {2 * DAY}")
    assert level(cli("doctor", "--json"), "heads") == "warn"


def test_a_log_that_was_cut_off_or_put_back(log: JobLog, cli: Cli) -> None:
    submit(log)
    Consumer.open(log.store, "audit")
    log.raise_epoch(ADA, reason="restored")
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute("INSERT INTO tracking (application_name, notification_id) VALUES ('tree', 9)")

    answer = cli("doctor", "--json")

    assert level(answer, "consumers") == "warn"
    assert level(answer, "tree") == "fail"
    assert answer.code == 6
