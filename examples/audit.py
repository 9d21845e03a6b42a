"""An audit consumer: copies the log into a file, event by event, and takes none that was not signed.

    python examples/audit.py sqlite:///joblog.db key.pub folder

It keeps a handful of hashes (one for each 1 in the binary form of its position), survives kill -9 anywhere without
losing or repeating an event, and stops at the first event that was changed, removed, moved or slipped in.
"""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

from joblog.domain.errors import TamperedError
from joblog.eventstore.entries import to_line
from joblog.eventstore.opening import open_store
from joblog.projections.proof.audit import next_entries
from joblog.projections.proof.merkle import Frontier
from joblog.projections.proof.notes import Verifier


def follow(url: str, public_key: str, folder: Path) -> int:
    state_file, verifier = folder / "state.json", Verifier.parse(public_key)
    state = json.loads(state_file.read_text()) if state_file.exists() else {"size": 0, "hashes": [], "bytes": 0}
    frontier = Frontier(state["size"], map(bytes.fromhex, state["hashes"]))
    with closing(open_store(url, read_only=True)) as store, (folder / "copy.ndjson").open("ab") as copy:
        copy.truncate(state["bytes"])  # what was written after the last state counts for nothing
        while entries := next_entries(store, frontier, verifier, limit=100):
            copy.writelines(map(to_line, entries))  # the stored bytes, one event a line
            copy.flush()
            os.fsync(copy.fileno())
            state = {"size": frontier.size, "hashes": [h.hex() for h in frontier.hashes], "bytes": copy.tell()}
            with (folder / "state.new").open("w") as file:
                json.dump(state, file)
                file.flush()
                os.fsync(file.fileno())
            (folder / "state.new").replace(state_file)  # from here on those events are taken
    return frontier.size


if __name__ == "__main__":
    try:
        print("checked and taken:", follow(sys.argv[1], Path(sys.argv[2]).read_text(), Path(sys.argv[3])))
    except TamperedError as error:
        sys.exit(f"STOP at position {error.position}: {error}")
