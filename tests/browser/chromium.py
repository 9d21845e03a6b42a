"""Which browser the tests use: the system's Chromium, else the one that Playwright has fetched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str | None:
    """Its path; None for Playwright's own.  Without any the tests fail: a page that nobody has opened is not tested."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    return None


def is_there() -> bool:
    """Whether there is one at all."""
    if executable() is not None:
        return True
    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path).exists()


def needed() -> None:
    """Fail, and say what to do."""
    if not is_there():
        pytest.fail(f"no browser: none of {', '.join(NAMES)} is on the path; `make test` brings one", pytrace=False)
