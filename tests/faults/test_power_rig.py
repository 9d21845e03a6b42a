"""The power rig: what it takes for durable is durable, and it finds what ``synchronous=NORMAL`` loses."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import power_rig
from tests.faults.campaign import start_shard
from tests.faults.power_rig import Disk, NotAvailableError, Op, parse

pytestmark = pytest.mark.faults
PLACE = Path("/place")
DB = "".join(f"\\x{byte:02x}" for byte in b"/place/log.db")
JOURNAL = "".join(f"\\x{byte:02x}" for byte in b"/place/journal")


def images(disk: Disk, count: int = 200) -> set[bytes | None]:
    rng = random.Random(1)
    return {disk.image(rng, Counter()).get("log.db") for _ in range(count)}


def test_what_was_synced_stays_and_the_rest_may_go() -> None:
    disk = Disk()
    for op in (Op("create", "log.db"), Op("write", "log.db", 0, b"a"), Op("sync-names", begun=2)):
        disk.take(op)
    disk.take(Op("sync", "log.db", begun=3))
    disk.take(Op("write", "log.db", 1, b"b"))

    assert images(disk) == {b"a", b"ab"}


def test_a_sync_covers_only_what_had_ended_when_it_began() -> None:
    disk = Disk()
    disk.take(Op("create", "log.db"))
    disk.take(Op("sync-names", begun=1))
    disk.take(Op("write", "log.db", 0, b"a"))
    disk.take(Op("write", "log.db", 1, b"b"))  # between the begin and the end of the sync
    disk.take(Op("sync", "log.db", begun=3))

    assert images(disk) == {b"a", b"ab"}


def test_a_write_is_torn_at_sectors() -> None:
    disk = Disk()
    disk.take(Op("create", "log.db"))
    disk.take(Op("sync-names", begun=1))
    disk.take(Op("write", "log.db", 0, b"a" * 1024))

    assert b"\0" * 512 + b"a" * 512 in images(disk, 400)


def test_a_name_that_was_not_synced_may_be_missing_and_a_removed_one_may_be_back() -> None:
    disk = Disk()
    disk.take(Op("create", "log.db"))
    assert None in images(disk)

    disk.take(Op("sync-names", begun=1))
    assert images(disk) == {b""}

    disk.take(Op("unlink", "log.db"))
    assert images(disk) == {b"", None}


def test_a_trace_is_read_call_by_call() -> None:
    trace = "\n".join(
        (
            f'7 openat(AT_FDCWD<\\x2f>, "\\x61", O_RDWR|O_CREAT, 0644) = 3<{DB}>',
            f'7 pwrite64(3<{DB}>, "\\x61\\x62", 2, 4096) = 2',
            f"8 fdatasync(3<{DB}> <unfinished ...>",
            f'7 write(4<{JOURNAL}>, "\\x0a", 1) = 1',
            "8 <... fdatasync resumed>)             = 0",
            f'7 pwrite64(3<{DB}>, "\\x61", 1, 0) = -1 EIO (Input/output error)',
            "7 +++ exited with 0 +++",
        )
    )

    assert list(parse(trace, PLACE)) == [
        Op("create", "log.db"),
        Op("write", "log.db", 4096, b"ab"),
        Op("tell", data=b"\n"),
        Op("sync", "log.db", begun=2),
    ]


def test_a_machine_without_strace_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)

    with pytest.raises(NotAvailableError, match="install it"):
        power_rig.record(tmp_path / "r", 1)


def test_no_cut_loses_what_was_acknowledged() -> None:
    report = start_shard("power-cuts", seed=5, count=80)

    assert report.violations == []
    assert report.runs == report.fired["cut"] == 80
    assert report.fired["write-dropped"]
    assert report.fired["write-torn"]
    assert report.counts["sync"] > 20


def test_what_a_weaker_setting_loses_is_found() -> None:
    report = start_shard("power-proof", seed=5, count=40)

    assert report.violations == []
    assert report.fired["loss-found"] > 5
