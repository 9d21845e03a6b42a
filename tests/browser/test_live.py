"""What an operator sees and does while a worker imports a file."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from playwright.sync_api import Dialog, Page, expect

from joblog.domain.spec import JobSpec
from joblog.projections import queries
from joblog.workers.commands.log import JobLog
from tests.acceptance.workers import joblog_worker
from tests.browser import imports
from tests.browser.conftest import Visit
from tests.patience import until


def mark(page: Page) -> None:
    """Of this document: a page that was loaded again has lost it."""
    page.evaluate("document.documentElement.dataset.marked = 'yes'")


def is_same(page: Page) -> None:
    expect(page.locator("html[data-marked=yes]")).to_have_count(1)


def test_the_whole_life_of_an_import_is_seen_live(visit: Visit, log: JobLog, sqlite_url: str, tmp_path: Path) -> None:
    page = visit(log).open("/jobs")
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    mark(page)

    job_id = imports.submit(log, tmp_path, pace=0.1)
    expect(page.locator("#jobs .chip.queued")).to_be_visible()
    is_same(page)

    page.locator("#jobs").get_by_role("link", name=str(job_id)[:8]).click()
    expect(page.get_by_text("no worker takes it")).to_be_visible()
    mark(page)
    with joblog_worker(sqlite_url, "--name", "host-1", "--poll", "1s"):
        expect(page.locator("#state .chip.running")).to_be_visible()
        expect(page.locator("#life")).to_contain_text("done, to checkpoint")
        expect(page.locator("#state .chip.completed")).to_be_visible()
    expect(page.locator("#life")).to_contain_text("claimed by host-1")
    expect(page.locator("#life")).to_contain_text("completed")
    is_same(page)


def test_it_is_paused_by_mouse_and_resumed_by_keyboard(
    visit: Visit, log: JobLog, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = imports.submit(log, tmp_path, batch=100, pace=0.2)
    page = visit(log).open(f"/jobs/{job_id}")
    with joblog_worker(sqlite_url, "--name", "host-1", "--poll", "1s"):
        expect(page.locator("#state .chip.running")).to_be_visible()
        page.get_by_label("Reason").fill("provider is down")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#state .chip.paused")).to_be_visible()
        expect(page.locator("#life")).to_contain_text("ada asked for a pause: provider is down")
        before = log.row(job_id)["done"]

        page.keyboard.press("g")
        page.keyboard.press("j")
        expect(page.get_by_role("heading", level=1, name="Jobs")).to_be_visible()
        page.keyboard.press("j")
        expect(page.locator("#jobs tbody a").first).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Job")
        resume = page.get_by_role("button", name="Resume")
        resume.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#state .chip.running")).to_be_visible()
        until(lambda: log.row(job_id)["done"] > before)
    assert [event.topic for event in log.store.read(job_id)].count("joblog.job.resumed") == 1


def test_a_cancel_is_asked_about_first(visit: Visit, log: JobLog) -> None:
    job_id = log.submit(JobSpec("waits")).job_id
    page = visit(log).open(f"/jobs/{job_id}")
    asked: list[str] = []

    def answer(*, yes: bool) -> None:
        def decide(box: Dialog) -> None:
            asked.append(box.message)
            if yes:
                box.accept()
            else:
                box.dismiss()

        page.once("dialog", decide)
        page.get_by_role("button", name="Cancel").click()

    answer(yes=False)
    assert log.row(job_id)["status"] == "queued"
    answer(yes=True)
    expect(page.locator("#state .chip.cancelled")).to_be_visible()
    assert len(asked) == 2


def test_a_worker_that_was_killed_is_in_the_recovery_report(
    visit: Visit, log: JobLog, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = imports.submit(log, tmp_path, batch=100, pace=0.2)
    page = visit(log).open(f"/jobs/{job_id}")
    with joblog_worker(sqlite_url, "--name", "host-1", "--poll", "1s") as first:
        expect(page.locator("#life")).to_contain_text("done, to checkpoint")
        first.send_signal(signal.SIGKILL)
        first.wait()
    with joblog_worker(sqlite_url, "--name", "host-2", "--poll", "1s"):
        expect(page.locator("#life")).to_contain_text("claimed by host-2")
        head = log.store.head()
        until(lambda: {one.name: one.position for one in queries.lag(log.store)}["recovery"] >= head)
        page.get_by_role("link", name="Recovery").click()

        row = page.locator("tbody tr").filter(has_text="host-1")
        expect(row).to_contain_text("reclaim")
        row.get_by_role("link").click()
        expect(page).to_have_url(re.compile(f"/jobs/{job_id}$"))
    expect(page.locator("#life")).to_contain_text("host-1 died")


def test_what_is_typed_in_a_filter_stays_while_the_table_moves(visit: Visit, log: JobLog) -> None:
    page = visit(log).open("/jobs")
    kind = page.get_by_label("Kind")
    kind.press_sequentially("imp")
    log.submit(JobSpec("first"))
    expect(page.locator("#jobs")).to_contain_text("first")

    expect(kind).to_be_focused()
    expect(kind).to_have_value("imp")
    kind.press_sequentially("ort")
    log.submit(JobSpec("import"))
    expect(page.locator("#jobs").get_by_text("import", exact=True)).to_be_visible()
    expect(kind).to_have_value("import")
    kind.press("Enter")
    expect(page.locator("#jobs tbody tr")).to_have_count(1)


def test_live_is_switched_off_and_on_and_says_so(visit: Visit, log: JobLog) -> None:
    page = visit(log).open("/jobs", reduced_motion="reduce")
    switch = page.get_by_role("button", name="live")
    expect(switch).to_have_text("live: off")
    log.submit(JobSpec("first"))
    switch.click()
    expect(page.locator("#jobs")).to_contain_text("first")
    page.keyboard.press("r")
    expect(switch).to_have_attribute("aria-pressed", "false")


def test_a_service_that_goes_away_blanks_nothing_and_is_told(visit: Visit, log: JobLog) -> None:
    log.submit(JobSpec("stays"))
    visitor = visit(log)
    page = visitor.open("/jobs")
    expect(page.locator("#jobs")).to_contain_text("stays")
    visitor.server.stop()

    expect(page.locator("#said")).to_contain_text("Live updates stopped")
    expect(page.locator("#jobs")).to_contain_text("stays")
