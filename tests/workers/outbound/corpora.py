"""The committed tables of what servers and attackers send."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "corpora"


def unescaped(text: str) -> str:
    text = re.sub(r"\\r\{(\d)\*(\d+)\}", lambda found: found[1] * int(found[2]), text)
    return re.sub(r"\\u\{([0-9A-Fa-f]+)\}", lambda found: chr(int(found[1], 16)), text)


def rows(name: str) -> list[list[str]]:
    lines = (ROOT / name).read_text(encoding="ascii").split("\n")
    return [line.split("\t") for line in lines if line and not line.startswith("#")][1:]
