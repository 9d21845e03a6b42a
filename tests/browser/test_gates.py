"""Closing and opening a provider's gate, by mouse, by keyboard, and without JavaScript."""

from __future__ import annotations

from playwright.sync_api import expect

from joblog.domain.job import Actor
from joblog.eventstore.gates import GateLimits
from joblog.workers.commands import gating
from joblog.workers.commands.log import JobLog
from tests.browser.conftest import Visit
from tests.browser.test_screens import faults

ADA = Actor("ada")


def is_closed(log: JobLog, gate: str) -> bool:
    [state] = log.store.gates(gate)
    return state.row.closed_until > log.store.now()


def test_a_gate_is_closed_by_mouse_and_opened_by_keyboard(visit: Visit, log: JobLog) -> None:
    gating.limit(log, "crm/red", ADA, GateLimits(slots=2))
    page = visit(log).open("/gates", color_scheme="dark")
    row = page.locator("#gates tr", has_text="crm/red")
    row.get_by_text("Close or open").click()
    row.get_by_label("For", exact=True).fill("5m")
    row.get_by_label("Reason").first.fill("they asked")
    gating.limit(log, "mail", ADA, GateLimits(slots=1))  # the table moves; what was typed stays
    expect(page.locator("#gates")).to_contain_text("mail")
    assert faults(page) == []
    page.emulate_media(color_scheme="light")
    assert faults(page) == []
    row.get_by_role("button", name="Close crm/red").click()

    expect(row.locator(".chip.waiting")).to_be_visible()
    expect(row).to_contain_text("by ada: they asked")
    assert is_closed(log, "crm/red")
    assert not is_closed(log, "mail")

    row.locator("summary").focus()
    page.keyboard.press("Enter")
    row.get_by_label("Reason").last.focus()
    page.keyboard.type("they answer again")
    page.keyboard.press("Enter")
    expect(row.locator(".chip.running")).to_be_visible()
    assert not is_closed(log, "crm/red")


def test_a_gate_that_is_not_listed_is_closed_without_javascript(visit: Visit, log: JobLog) -> None:
    page = visit(log).open("/gates", java_script_enabled=False)
    form = page.locator("main form").last
    form.get_by_label("Gate").fill("shop")
    form.get_by_label("Reason").fill("sale")
    form.get_by_role("button", name="Close").click()
    expect(page.get_by_role("alert")).to_contain_text("say for how long")
    expect(page.locator("main form").last.get_by_label("Gate")).to_have_value("shop")

    form = page.locator("main form").last
    form.get_by_label("or until (UTC)").fill("2999-01-02T03:04")
    form.get_by_role("button", name="Close").click()
    expect(page.locator("#gates")).to_contain_text("until 2999-01-02 03:04:00 by ada: sale")
    page.locator("#gates summary").click()
    page.locator("#gates").get_by_label("with the jobs that it had paused").check()
    page.locator("#gates").get_by_role("button", name="Open shop").click()
    expect(page.get_by_role("status").filter(has_text="0 jobs resumed")).to_be_visible()
    assert not is_closed(log, "shop")
