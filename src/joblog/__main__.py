"""``python -m joblog`` and the ``joblog`` script."""

from __future__ import annotations

import sys

from .api.cli.main import run


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
