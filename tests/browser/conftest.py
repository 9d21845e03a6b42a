"""A real browser before a real service; whatever the browser complains of fails the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from joblog.api.http.auth import Auth
from joblog.api.http.server import HttpServer
from joblog.workers.commands.log import JobLog
from tests.api.http.client import serving
from tests.browser.chromium import executable, needed

PATIENCE = 120_000  #: milliseconds: only what never comes takes so long
_VIOLATED = (
    "addEventListener('securitypolicyviolation', (e) => complain(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`))"
)


# Of a module and not of the session: while Playwright runs, its thread has a running loop, and other tests start their own.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    needed()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])  # tests may be root
        yield browser
        browser.close()


@dataclass
class Visitor:
    """One who opens pages of a log, signed in by a link."""

    browser: Browser
    log: JobLog
    server: HttpServer
    complaints: list[str] = field(default_factory=list)
    _contexts: list[BrowserContext] = field(default_factory=list)

    def open(self, path: str = "/", **options: Any) -> Page:
        """A page of a new browser profile; *options* as of ``Browser.new_context``."""
        with_script = options.get("java_script_enabled", True)
        context = self.browser.new_context(base_url=self.server.url, **options)
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("console", self._listen)
        if with_script:
            context.expose_binding("complain", lambda _, text: self.complaints.append(text))
            context.add_init_script(_VIOLATED)
        page = context.new_page()
        page.goto(f"/sign-in?code={Auth(self.log).sign_in_link('ada')}")
        if path != "/":
            page.goto(path)
        return page

    def _listen(self, message: Any) -> None:
        # A refusal that a test provokes is no complaint of the browser's, and a service that stops is a test's doing.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def leave(self) -> None:
        for context in self._contexts:
            context.close()


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Visit a log: it is served, and whatever the browser complained of fails the test."""
    with ExitStack() as stack:

        def made(log: JobLog, **settings: Any) -> Visitor:
            server = stack.enter_context(serving(log, **settings))
            visitor = Visitor(chromium, log, server)
            stack.callback(lambda: visitors.append(visitor))
            stack.callback(visitor.leave)
            return visitor

        visitors: list[Visitor] = []
        yield made
    assert [text for visitor in visitors for text in visitor.complaints] == []


@pytest.fixture
def log(sqlite_url: str) -> Iterator[JobLog]:
    with JobLog.open(sqlite_url) as log:
        yield log
