"""Every screen: for everybody, in both colour schemes, on a narrow one, and without JavaScript."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from joblog.api.web.render import SCREENS
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog
from tests.browser import scene as scenes
from tests.browser.conftest import Visit
from tests.browser.scene import Scene

SHOTS: Final = Path(__file__).parents[2] / "docs" / "screens"
WRITES: Final = bool(os.environ.get("JOBLOG_TEST_WRITE"))
AXE: Final = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")  # the package's file alone
MOST: Final = 150_000  #: bytes of a picture
WIDE, NARROW = {"width": 1280, "height": 660}, {"width": 320, "height": 640}
#: What can be seen on each screen, so that none is looked at while it is empty.
SEEN: Final = {
    "/": "Newest",
    "/jobs": "people.import",
    "/queues": "bulk",
    "/workers": "host-1",
    "/gates": "crm",
    "/recovery": "host-9",
    "/projections": "counters",
    "/security": "ssrf",
    "/feed": "billing",
    "/admin": "dashboard",
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scenes.made(tmp_path_factory.mktemp("scene")) as scene:
        yield scene


def paths(scene: Scene) -> dict[str, str]:
    """Every screen's name and path."""
    listed = {name.lower().replace(" ", "-"): path for path, name, *_ in SCREENS}
    jobs = {f"job-{name}": f"/jobs/{scene.jobs[name]}" for name in ("lost", "retried", "past-4")}
    lost = scene.jobs["lost"]
    more = {"jobs-past": "/jobs?at=300&limit=6", "job-past": f"/jobs/{lost}?at={scene.log.store.head()}"}
    more |= {"job-verified": f"/jobs/{lost}?verify=true#verify", "doctor": "/admin?doctor=true#doctor"}
    return listed | jobs | more


def look(page: Page, name: str, path: str) -> None:
    """Open a screen and see that it is the one, with something on it."""
    page.goto(path)
    seen = "looking at the past" if "at=" in path else SEEN.get(path.partition("?")[0], "Timeline")
    assert seen in page.locator("main").inner_text(), name
    assert page.get_by_role("heading", level=1).count() == 1


def shoot(page: Page, name: str) -> None:
    """Keep a picture for the documents, when asked to."""
    if WRITES:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{name}.png", animations="disabled", caret="hide")
        assert (SHOTS / f"{name}.png").stat().st_size < MOST


def faults(page: Page) -> list[str]:
    """What axe finds: the rule, and where."""
    page.evaluate(AXE)
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
        for one in found["violations"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_screen_has_a_fault_of_accessibility(visit: Visit, scene: Scene, scheme: str) -> None:
    page = visit(scene.log).open(color_scheme=scheme, viewport=WIDE, reduced_motion="reduce")
    found: dict[str, list[str]] = {}
    for name, path in paths(scene).items():
        look(page, name, path)
        shoot(page, f"{name}-{scheme}")
        if wrong := faults(page):
            found[name] = wrong
    assert found == {}


def test_no_screen_scrolls_sideways_at_320_pixels(visit: Visit, scene: Scene) -> None:
    page = visit(scene.log).open(viewport=NARROW, reduced_motion="reduce")
    wide: dict[str, int] = {}
    for name, path in paths(scene).items():
        look(page, name, path)
        if name in {"jobs", "overview"}:
            shoot(page, f"{name}-320")
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > NARROW["width"]:
            wide[name] = width
    assert wide == {}


def test_the_switch_of_themes_wins_over_the_system(visit: Visit, log: JobLog) -> None:
    page = visit(log).open(color_scheme="light")
    theme = page.get_by_role("button", name="theme")
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(back)
    for said in ("theme: light", "theme: dark"):
        theme.click()
        expect(theme).to_have_text(said)
    dark = page.evaluate(back)
    assert dark != light
    page.reload()
    assert page.evaluate(back) == dark
    assert faults(page) == []


# -- without JavaScript ----------------------------------------------------------------------------------------------


def test_all_of_it_works_without_javascript(visit: Visit, scene: Scene) -> None:
    page = visit(scene.log).open(java_script_enabled=False)
    for name, path in paths(scene).items():
        look(page, name, path)
    assert page.get_by_role("button", name="live").count() == 0


def test_a_job_is_found_paused_and_resumed_without_javascript(visit: Visit, log: JobLog) -> None:
    log.submit_many([JobSpec("many", n, key=f"m{n}") for n in range(30)])
    job_id = log.submit(JobSpec("wanted")).job_id
    page = visit(log).open("/jobs", java_script_enabled=False)
    page.get_by_role("link", name="older").click()
    expect(page.locator("[data-row]")).to_have_count(6)

    page.get_by_label("Kind").fill("wanted")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name=str(job_id)[:8]).click()
    page.get_by_label("Reason").fill("by hand")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#state .chip.paused")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#state .chip.queued")).to_be_visible()
