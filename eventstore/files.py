"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def sync(path: Path) -> None:
    """Have the disk keep a file, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(staged: Path, target: Path) -> None:
    """Put a finished file in its place."""
    sync(staged)
    staged.replace(target)
    sync(target.parent)


def write_whole(target: Path, text: str) -> None:
    """Write a small file: the old one stands until the new one is on the disk."""
    staged = target.with_name(target.name + ".new")
    staged.write_text(text, encoding="utf-8")
    publish(staged, target)
