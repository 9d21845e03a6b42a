"""What the database itself demands of an archive, whoever writes.

A body may only be emptied in the transaction that appends ``log.archived``: while that is the newest event of the log, of
a stream and in a range that were recorded with it, and below a signed head.  Everything else about an event never changes.
"""

from __future__ import annotations

from typing import Final

from ..domain.identity import LOG_STREAM
from ..domain.log_events import Archived

_INSERT_ONLY: Final = "the log is insert-only"
_NOT_RECORDED: Final = "no such archive is recorded by the newest event"
_FIELDS: Final = ("name", "first", "last", "events", "digest")
_NUMBERS: Final = frozenset({"first", "last", "events"})

#: Whether the row of ``events`` named ``NEW`` may have been emptied now.
_MAY_EMPTY: Final = """EXISTS (
  SELECT 1 FROM archived_streams s JOIN archives a ON a.event = s.archive
  WHERE s.stream_id = NEW.stream_id AND NEW.position BETWEEN a.first AND a.last
    AND a.event = (SELECT max(position) FROM events)
    AND a.last <= (SELECT max(h.size) FROM tree_heads h WHERE h.epoch = (SELECT epoch FROM log_state WHERE id = 1))
    AND a.last <= (SELECT t.notification_id FROM tracking t WHERE t.application_name = 'tree'))"""

#: Whether the newest event is the record of an archive, at the position {at}.
_RECORD: Final = """EXISTS (
  SELECT 1 FROM events e WHERE e.position = {at} AND e.position = (SELECT max(position) FROM events)
    AND e.topic = '{topic}' AND e.stream_id = {stream}{same})"""


def _record(at: str, dialect: str, *, whole: bool) -> str:
    stream = f"x'{LOG_STREAM.hex}'" if dialect == "sqlite" else f"'{LOG_STREAM}'"
    same = "".join(f" AND {_field(name, dialect)} = NEW.{name}" for name in _FIELDS) if whole else ""
    return _RECORD.format(at=at, topic=Archived.TOPIC, stream=stream, same=same)


def _field(name: str, dialect: str) -> str:
    """A field of the event's body."""
    if dialect == "sqlite":
        return f"json_extract(CAST(e.state AS TEXT), '$.{name}')"
    found = f"(convert_from(e.state, 'UTF8')::jsonb->>'{name}')"
    return f"{found}::bigint" if name in _NUMBERS else found


def _abort(text: str) -> str:
    return f"BEGIN SELECT RAISE(ABORT, '{text}'); END"


def sqlite_triggers() -> tuple[str, ...]:
    """For SQLite."""
    same = "NEW.position IS OLD.position AND NEW.stream_id IS OLD.stream_id AND NEW.version IS OLD.version"
    same = f"{same} AND NEW.topic IS OLD.topic AND typeof(NEW.state) = 'blob' AND length(NEW.state) = 0"
    kept = " AND ".join(f"NEW.{name} IS OLD.{name}" for name in ("event", *_FIELDS))
    closed = "EXISTS (SELECT 1 FROM archives WHERE event = NEW.archive)"
    return (
        f"CREATE TRIGGER events_no_update BEFORE UPDATE ON events WHEN NOT ({same} AND {_MAY_EMPTY}) {_abort(_INSERT_ONLY)}",
        f"CREATE TRIGGER archives_no_delete BEFORE DELETE ON archives {_abort(_INSERT_ONLY)}",
        f"CREATE TRIGGER archives_no_update BEFORE UPDATE ON archives WHEN NOT ({kept}) {_abort(_INSERT_ONLY)}",
        (
            "CREATE TRIGGER archives_recorded BEFORE INSERT ON archives WHEN EXISTS (SELECT 1 FROM archives "
            "WHERE event = NEW.event OR name = NEW.name) "
            f"OR NOT {_record('NEW.event', 'sqlite', whole=True)} {_abort(_NOT_RECORDED)}"
        ),
        f"CREATE TRIGGER archived_streams_no_delete BEFORE DELETE ON archived_streams {_abort(_INSERT_ONLY)}",
        f"CREATE TRIGGER archived_streams_no_update BEFORE UPDATE ON archived_streams {_abort(_INSERT_ONLY)}",
        (
            "CREATE TRIGGER archived_streams_recorded BEFORE INSERT ON archived_streams WHEN EXISTS (SELECT 1 FROM "
            f"archived_streams WHERE stream_id = NEW.stream_id) OR {closed} "
            f"OR NOT {_record('NEW.archive', 'sqlite', whole=False)} {_abort(_NOT_RECORDED)}"
        ),
    )


def _function(name: str, condition: str, text: str) -> str:
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN\n"
        f"IF {condition} THEN RETURN NEW; END IF;\nRAISE EXCEPTION '{text}' USING ERRCODE = 'JL009'; END $$"
    )


def postgres_triggers() -> tuple[str, ...]:
    """For PostgreSQL."""
    same = "(NEW.position, NEW.stream_id, NEW.version, NEW.topic, NEW.state)"
    same = f"{same} IS NOT DISTINCT FROM (OLD.position, OLD.stream_id, OLD.version, OLD.topic, ''::bytea)"
    names = ("event", *_FIELDS)
    kept = f"({', '.join(f'NEW.{n}' for n in names)}) IS NOT DISTINCT FROM ({', '.join(f'OLD.{n}' for n in names)})"
    open_ = "NOT EXISTS (SELECT 1 FROM archives WHERE event = NEW.archive)"
    triggers = [
        ("events_no_update", "BEFORE UPDATE ON events FOR EACH ROW", "joblog_may_empty"),
        ("archives_no_delete", "BEFORE DELETE ON archives FOR EACH STATEMENT", "joblog_refuse"),
        ("archives_no_truncate", "BEFORE TRUNCATE ON archives FOR EACH STATEMENT", "joblog_refuse"),
        ("archives_no_update", "BEFORE UPDATE ON archives FOR EACH ROW", "joblog_may_move"),
        ("archives_recorded", "BEFORE INSERT ON archives FOR EACH ROW", "joblog_is_recorded"),
        (
            "archived_streams_no_delete",
            "BEFORE DELETE OR UPDATE ON archived_streams FOR EACH STATEMENT",
            "joblog_refuse",
        ),
        ("archived_streams_no_truncate", "BEFORE TRUNCATE ON archived_streams FOR EACH STATEMENT", "joblog_refuse"),
        ("archived_streams_recorded", "BEFORE INSERT ON archived_streams FOR EACH ROW", "joblog_is_recording"),
    ]
    recording = f"{open_} AND {_record('NEW.archive', 'postgresql', whole=False)}"
    return (
        _function("joblog_may_empty", f"{same} AND {_MAY_EMPTY}", _INSERT_ONLY),
        _function("joblog_may_move", kept, _INSERT_ONLY),
        _function("joblog_is_recorded", _record("NEW.event", "postgresql", whole=True), _NOT_RECORDED),
        _function("joblog_is_recording", recording, _NOT_RECORDED),
        *(f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION {function}()" for name, when, function in triggers),
        *(f"ALTER TABLE {when.split()[-4]} ENABLE ALWAYS TRIGGER {name}" for name, when, _ in triggers),
    )


#: The functions of ``postgres_triggers``, for the way back.
FUNCTIONS: Final = ("joblog_may_empty", "joblog_may_move", "joblog_is_recorded", "joblog_is_recording")
