"""Many jobs at once, the past, the feed, and who may come in."""

from __future__ import annotations

import re
from uuid import UUID

from playwright.sync_api import Dialog, Page, expect

from joblog.domain.spec import JobSpec
from joblog.projections.runner import Runner
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client
from tests.browser.conftest import Visit
from tests.patience import until

JOBS = "#jobs tbody tr"


def some(log: JobLog, kind: str, count: int) -> list[UUID]:
    return [log.submit(JobSpec(kind, key=f"{kind}-{n}")).job_id for n in range(count)]


def follow(log: JobLog) -> None:
    Runner(log.store, log.mapper, "me").run()


def statuses(log: JobLog, ids: list[UUID]) -> list[str]:
    return [str(log.row(one)["status"]) for one in ids]


# -- many jobs -------------------------------------------------------------------------------------------------------


def test_ticked_rows_are_paused_as_one_job(visit: Visit, log: JobLog) -> None:
    ids = some(log, "import", 3)
    page = visit(log).open("/jobs")
    page.locator(f"{JOBS} input[value='{ids[0]}']").check()
    page.locator(f"{JOBS} a", has_text=str(ids[2])[:8]).focus()
    page.keyboard.press("x")
    expect(page.locator("#ticked")).to_have_text("2 ticked")

    log.submit(JobSpec("later"))  # the table moves; the ticks stay where they are
    expect(page.locator("#jobs")).to_contain_text("later")
    expect(page.locator(f"{JOBS} input:checked")).to_have_count(2)
    page.locator("#bulk").get_by_label("Reason").fill("provider is down")
    page.get_by_role("button", name="Pause").click()

    expect(page.locator("#told .chip.completed")).to_be_visible()
    assert statuses(log, ids) == ["paused", "queued", "paused"]
    assert log.row(ids[0])["reason_text"] == "provider is down"


def test_all_that_match_are_asked_about_with_their_number(visit: Visit, log: JobLog) -> None:
    ids, others = some(log, "import", 30), some(log, "other", 2)
    follow(log)
    page = visit(log).open("/jobs?kind=import")
    expect(page.locator("#matching")).to_have_text("all that match: 30")
    page.locator("[name=scope]").select_option("all")
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 30 jobs?")
    assert set(statuses(log, ids)) == {"queued"}
    page.get_by_role("button", name="Cancel them").click()

    expect(page.locator("#told .chip.completed")).to_be_visible()
    expect(page).to_have_url(re.compile("kind=import"))
    assert set(statuses(log, ids)) == {"cancelled"}
    assert statuses(log, others) == ["queued"] * 2


def test_rows_are_ticked_and_resumed_without_javascript(visit: Visit, log: JobLog) -> None:
    ids = some(log, "import", 2)
    page = visit(log).open("/jobs", java_script_enabled=False)
    for box in page.locator(f"{JOBS} input").all():
        box.check()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#told")).to_contain_text("joblog.bulk")
    until(lambda: statuses(log, ids) == ["paused"] * 2)

    page.goto("/jobs")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("alert")).to_contain_text("no row was ticked")


def test_facets_lead_to_the_rows_behind_their_numbers(visit: Visit, log: JobLog) -> None:
    some(log, "import", 3)
    some(log, "other", 2)
    follow(log)
    page = visit(log).open("/jobs")
    facets = page.get_by_role("navigation", name="Facets")
    facets.get_by_role("link", name="import 3").click()
    expect(page.locator(JOBS)).to_have_count(3)
    expect(facets.get_by_role("link", name="import 3")).to_have_attribute("aria-current", "true")
    facets.get_by_role("link", name="import 3").click()
    expect(page.locator(JOBS)).to_have_count(5)
    page.get_by_label("Id").fill(page.locator(f"{JOBS} code").first.inner_text())
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(JOBS)).to_have_count(1)


# -- the past --------------------------------------------------------------------------------------------------------


def lived(log: JobLog) -> UUID:
    """A job at positions 1 to 4: handed in, claimed, its one unit done, completed."""
    job_id = log.submit(JobSpec("import")).job_id
    [held] = log.claim("host-1")
    held.complete({})
    log.submit(JobSpec("later"))
    follow(log)
    return job_id


def slide(page: Page, position: int) -> None:
    page.locator("[data-time]").evaluate(
        "(one, to) => { one.value = to; one.dispatchEvent(new Event('input', { bubbles: true }));"
        " one.dispatchEvent(new Event('change', { bubbles: true })); }",
        position,
    )


def test_the_table_is_seen_as_it_stood_and_nothing_is_commanded_there(visit: Visit, log: JobLog) -> None:
    job_id = lived(log)
    page = visit(log).open("/jobs")
    expect(page.locator(JOBS)).to_have_count(2)
    slide(page, 2)

    expect(page.get_by_text("You are looking at the past: position 2")).to_be_visible()
    expect(page.locator("#past tbody tr")).to_have_count(1)
    expect(page.locator("#past .chip.running")).to_be_visible()
    expect(page.locator("#past")).to_contain_text("host-1, attempt 1")
    assert page.locator("main form[method=post]").count() == 0
    page.keyboard.press("[")
    expect(page.locator("#past .chip.queued")).to_be_visible()
    page.get_by_role("link", name="one position on").click()
    page.locator("#past").get_by_role("link", name=str(job_id)[:8]).click()
    expect(page.locator("main .chip.running")).to_be_visible()
    assert page.locator("main form[method=post]").count() == 0
    page.get_by_role("link", name="Return to now").click()
    expect(page.locator("#state .chip.completed")).to_be_visible()


def test_time_is_travelled_without_javascript_by_position_or_instant(visit: Visit, log: JobLog) -> None:
    lived(log)
    page = visit(log).open("/jobs", java_script_enabled=False)
    field = page.get_by_label("Position or time")
    field.fill("1")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#past .chip.queued")).to_be_visible()
    field.fill(log.now().isoformat())
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#past .chip.completed")).to_be_visible()
    field.fill("tomorrow")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("neither position nor past instant")


# -- the log and who may come in -------------------------------------------------------------------------------------


def test_events_are_seen_as_they_come_and_by_topic(visit: Visit, log: JobLog) -> None:
    page = visit(log).open("/feed")
    expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()
    lived(log)
    expect(page.locator("#feed tbody tr")).to_have_count(log.store.head())
    expect(page.locator("#feed")).to_contain_text("claimed by host-1 (attempt 1)")

    page.get_by_label("Topic").select_option("joblog.job.submitted")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#feed tbody tr")).to_have_count(2)


def test_a_token_is_shown_once_opens_the_door_and_is_ended(visit: Visit, log: JobLog) -> None:
    visitor = visit(log)
    page = visitor.open("/admin")
    page.get_by_label("Name").fill("dashboard")
    page.get_by_label("jobs:read").check()
    page.get_by_role("button", name="Make it").click()
    secret = page.locator("#secret").inner_text()
    client = Client(visitor.server.port, secret)
    assert client.get("/api/v1/jobs").status == 200
    assert client.get("/api/v1/feed").status == 403

    page.goto("/admin")
    assert secret not in page.content()

    def accept(box: Dialog) -> None:
        box.accept()

    page.once("dialog", accept)
    page.get_by_role("button", name="Revoke dashboard").click()
    expect(page.locator("main .chip.cancelled")).to_contain_text("revoked")
    until(lambda: client.get("/api/v1/jobs").status == 401)


def test_a_view_is_compared_and_rebuilt_from_the_page(visit: Visit, log: JobLog) -> None:
    lived(log)
    page = visit(log).open("/projections")
    for name in ("Compare counters with the log", "Rebuild counters"):
        page.get_by_role("button", name=name).click()
        expect(page.locator("#views .band .chip.completed")).to_be_visible()


def test_a_job_is_verified_from_the_page(visit: Visit, log: JobLog) -> None:
    page = visit(log).open(f"/jobs/{lived(log)}")
    page.get_by_role("link", name="Verify this job").click()
    expect(page.get_by_role("status").filter(has_text="events are what")).to_be_visible()
