"""What the worker logs of users' code can be written into any file."""

import logging

from joblog.workers.redaction import Redaction


def test_a_line_with_a_lone_surrogate_can_be_encoded() -> None:
    error = ValueError("bad \udcff text")
    told = (ValueError, error, None)
    record = logging.LogRecord("joblog", logging.WARNING, "f.py", 1, "job: %s", (error,), told)

    assert Redaction().filter(record)

    assert record.getMessage().encode() == b"job: bad \\udcff text"
    assert record.exc_text is not None
    assert record.exc_text.encode().endswith(b"ValueError: bad \\udcff text")
