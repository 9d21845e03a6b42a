"""When a browser has painted something of each screen, from the moment that its address was entered: in a real Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from joblog.api.http.auth import Auth
from joblog.api.http.server import Bind, HttpServer
from joblog.api.web.render import SCREENS
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs
from tests.browser.chromium import executable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

TIMES = 8  #: visits of each screen, every one by a browser that has nothing kept
PATIENCE = 60_000  #: milliseconds
#: The browser's own account: of the first paint with something in it, counted from the beginning of the navigation.
_PAINTED = """() => new Promise((done) => {
  const found = (list) => { const one = list.getEntriesByName('first-contentful-paint')[0]; if (one) done(one.startTime); };
  new PerformanceObserver(found).observe({ type: 'paint', buffered: true });
})"""


def screens(log: JobLog) -> Iterator[tuple[str, str]]:
    """Name and path of every screen, each with something on it."""
    yield from ((name, path) for path, name, *_ in SCREENS)
    job, head = log.store.find_jobs(limit=1)[0]["id"], log.store.head()
    yield "Job", f"/jobs/{job}"
    yield "Jobs, filtered", "/jobs?status=failed&kind=kind-03"
    yield "Jobs, 200 rows", "/jobs?limit=200"
    yield "Jobs, past", f"/jobs?at={max(head // 2, 1)}"
    yield "Job, past", f"/jobs/{job}?at={head}"
    yield "Doctor", "/admin?doctor=true"


def measure(url: str) -> dict[str, list[float]]:
    """Milliseconds to the first contentful paint, by screen."""
    with JobLog.open(url) as log:
        server = HttpServer(log, Jobs(), Bind(port=0))
        server.start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
                try:
                    return {name: _visits(browser, log, server, path) for name, path in screens(log)}
                finally:
                    browser.close()
        finally:
            server.stop()


def _visits(browser: Browser, log: JobLog, server: HttpServer, path: str) -> list[float]:
    took: list[float] = []
    for _ in range(TIMES):
        context = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(f"/sign-in?code={Auth(log).sign_in_link('bench')}")
        page.close()
        page = context.new_page()
        page.goto(path, wait_until="commit")
        took.append(float(page.evaluate(_PAINTED)))
        context.close()
    return took
