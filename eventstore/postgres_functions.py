"""The append and the choice of a claim as functions on PostgreSQL: one round trip each, one plan whatever the statistics.

Written for each of the two generations of the job table.  Error codes of our own class ``JL`` say what did not hold;
the whole transaction is then undone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from .claim_order import CLAIM_COLUMNS
from .gate_sql import UPSERT
from .schema import JOB_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

NOT_AS_EXPECTED: Final = "JL001"
GENERATION: Final = "JL002"
REWOUND: Final = "JL003"
EPOCH: Final = "JL004"

#: A row lock that is not free within this goes to the side lane; the log's lock is waited for.
NOWAIT_MS: Final = 10

NOW: Final = """
CREATE OR REPLACE FUNCTION joblog_now() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
"""

#: The key of the log's lock: the events table of this schema.  An oid is unsigned, the key is not.
LOCK: Final = "pg_advisory_xact_lock(7460711, ('events'::regclass::oid::bigint - 2147483648)::int)"

#: What could make a plan that is good until the statistics are out of date.
SWITCHED_OFF: Final = ("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_bitmapscan")
_SETTINGS: Final = f"""
  {" ".join(f"SET {name} = off" for name in SWITCHED_OFF)}
  SET plan_cache_mode = force_generic_plan"""

#: A row that is not there as expected: after a switch the old generation may be empty, or half of the next one.
NO_ROW: Final = f"""
CREATE OR REPLACE FUNCTION joblog_no_row(p_generation bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_generation bigint;
BEGIN
  SELECT generation INTO v_generation FROM log_state WHERE id = 1;
  IF v_generation <> p_generation THEN RAISE EXCEPTION '%', v_generation USING ERRCODE = '{GENERATION}'; END IF;
  RAISE EXCEPTION 'job rows' USING ERRCODE = '{NOT_AS_EXPECTED}';
END $$;
"""

#: Snapshot and tail of many streams, for a replay; streams go by their number, which is read faster than an id.
STREAMS: Final = f"""
CREATE OR REPLACE FUNCTION joblog_streams(p_streams uuid[]) RETURNS TABLE (
  number bigint, kind int, version bigint, topic text, state bytea
) LANGUAGE plpgsql {_SETTINGS} AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY WITH i AS (SELECT * FROM unnest(p_streams) WITH ORDINALITY AS i(id, n))
    SELECT i.n, 0 AS k, s.version, s.topic, s.state FROM i JOIN snapshots s ON s.stream_id = i.id
    UNION ALL SELECT i.n, 1, e.version, e.topic, e.state FROM i CROSS JOIN LATERAL (
      SELECT coalesce((SELECT s.version FROM snapshots s WHERE s.stream_id = i.id), 0) AS after) a
    JOIN events e ON e.stream_id = i.id AND e.version > a.after ORDER BY 1, 2, 3;
END $$;
"""

_APPEND: Final = """
CREATE OR REPLACE FUNCTION joblog_append_{p}(
  p_epoch bigint, p_seen bigint, p_generation bigint, p_wait boolean,
  e_stream uuid[], e_version bigint[], e_topic text[], e_state bytea[],
  e_unit text[],
  h_id uuid[], h_expected bigint[], h_version bigint[], h_updated bigint[], h_done bigint[], h_sequence bigint[],
  h_cursor text[], h_token bigint[], h_renew bigint[],
  p_new json, p_rest jsonb
) RETURNS bigint[] LANGUAGE plpgsql {settings} AS $$
DECLARE
  v_now bigint; v_head bigint; v_epoch bigint; v_generation bigint; n int; want int; v_key text;
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  IF NOT p_wait THEN PERFORM set_config('lock_timeout', '{nowait}', true); END IF;
  -- lock order everywhere: unit keys, job rows (sorted by the caller), leases, the log
  IF e_unit IS NOT NULL THEN  -- unnest reads an array once; a subscript walks to its element each time
    INSERT INTO unit_results (job_id, unit, version, state)
    SELECT e.stream, e.unit, e.version, e.state FROM unnest(e_stream, e_unit, e_version, e_state) e(stream, unit, version, state)
    WHERE e.unit IS NOT NULL;
  END IF;
  IF p_rest IS NOT NULL AND p_rest ? 'evidence' THEN
    IF EXISTS (SELECT 1 FROM jsonb_to_recordset(p_rest->'evidence') x(job_id uuid, n bigint)
               WHERE (SELECT count(*) FROM unit_results u WHERE u.job_id = x.job_id) <> x.n) THEN
      RAISE EXCEPTION 'evidence is missing' USING ERRCODE = '{bad}';
    END IF;
  END IF;
  IF h_id IS NOT NULL THEN
    UPDATE jobs_{p} j SET version = h.version, updated_at = h.updated, done = h.done, sequence = h.sequence,
      cursor = h.cursor, unit_attempt = 0, crashes = 0
    FROM unnest(h_id, h_expected, h_version, h_updated, h_done, h_sequence, h_cursor)
      h(id, expected, version, updated, done, sequence, cursor)
    WHERE j.id = h.id AND j.version = h.expected;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n <> cardinality(h_id) THEN PERFORM joblog_no_row(p_generation); END IF;
    v_now := joblog_now();
    SELECT count(*) INTO n FROM unnest(h_id, h_token) h(id, token)
      JOIN leases l ON l.job_id = h.id AND l.token = h.token AND l.epoch = p_epoch AND l.lease_until > v_now;
    IF n <> cardinality(h_id) THEN RAISE EXCEPTION 'leases' USING ERRCODE = '{bad}'; END IF;
    IF h_renew IS NOT NULL THEN
      UPDATE leases l SET lease_until = greatest(l.lease_until, v_now + h.renew) FROM unnest(h_id, h_renew) h(id, renew)
      WHERE l.job_id = h.id AND h.renew > 0;
    END IF;
  END IF;
  IF p_new IS NOT NULL THEN
    INSERT INTO jobs_{p} SELECT r.*
    FROM json_populate_recordset(json_populate_record(null::jobs_{p}, '{unsaid}'), p_new) r;
  END IF;
  IF p_rest IS NOT NULL THEN
    v_now := joblog_now();
    -- The unique key alone would take an event far ahead of its stream; a hot append was made from a replay.
    IF p_rest ? 'after' AND EXISTS (
      SELECT 1 FROM jsonb_to_recordset(p_rest->'after') x(id uuid, version bigint)
      WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.stream_id = x.id AND e.version = x.version)) THEN
      RAISE EXCEPTION 'stream versions' USING ERRCODE = '{bad}';
    END IF;
    IF p_rest ? 'set' THEN
      UPDATE jobs_{p} j SET ({columns}) = (SELECT {columns} FROM jsonb_populate_record(j, x.c))
      FROM jsonb_to_recordset(p_rest->'set') x(id uuid, expected bigint, c jsonb)
      WHERE j.id = x.id AND j.version = x.expected;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'set') THEN PERFORM joblog_no_row(p_generation); END IF;
    END IF;
    {frequent}
    IF p_rest ? 'fence' THEN
      SELECT count(*) INTO n FROM jsonb_to_recordset(p_rest->'fence') x(id uuid, epoch bigint, token bigint)
        JOIN leases l ON l.job_id = x.id AND l.token = x.token AND l.epoch = x.epoch AND l.lease_until > v_now;
      IF n <> jsonb_array_length(p_rest->'fence') THEN RAISE EXCEPTION 'leases' USING ERRCODE = '{bad}'; END IF;
      UPDATE leases l SET lease_until = greatest(l.lease_until, v_now + x.renew)
      FROM jsonb_to_recordset(p_rest->'fence') x(id uuid, renew bigint) WHERE l.job_id = x.id AND x.renew > 0;
    END IF;
    IF p_rest ? 'end' THEN
      want := jsonb_array_length(p_rest->'end'); n := 0;
      FOR v_key IN
        DELETE FROM leases l USING jsonb_to_recordset(p_rest->'end') x(id uuid, epoch bigint, token bigint, how text)
        WHERE l.job_id = x.id AND l.token = x.token AND l.epoch = x.epoch
          AND (x.how = 'proven' OR (x.how = 'holder' AND l.lease_until > v_now) OR (x.how = 'expired' AND l.lease_until <= v_now))
        RETURNING l.exclusive_key
      LOOP
        n := n + 1;
        IF v_key <> '' THEN
          UPDATE jobs_{p} SET ready = 1, blocked = 0 WHERE id = (
            SELECT id FROM jobs_{p} WHERE exclusive_key = v_key AND blocked = 1 ORDER BY priority, due_at, id LIMIT 1
            FOR UPDATE SKIP LOCKED);
        END IF;
      END LOOP;
      IF n <> want THEN RAISE EXCEPTION 'leases' USING ERRCODE = '{bad}'; END IF;
    END IF;
    IF p_rest ? 'grant' THEN
      INSERT INTO leases (job_id, epoch, token, worker, lease_until, boot_id, queue, gate, exclusive_key, presence)
      SELECT x.id, x.epoch, x.token, x.worker, v_now + x.micros, '', x.queue, x.gate, x.exclusive_key, x.presence
      FROM jsonb_to_recordset(p_rest->'grant') x(id uuid, epoch bigint, token bigint, worker text, micros bigint,
        queue text, gate text, exclusive_key text, presence text);
    END IF;
    IF p_rest ? 'receipt' THEN
      INSERT INTO receipts SELECT r.* FROM jsonb_populate_recordset(null::receipts, p_rest->'receipt') r;
    END IF;
    IF p_rest ? 'queue' THEN
      INSERT INTO queues SELECT r.* FROM jsonb_populate_recordset(null::queues, p_rest->'queue') r
      ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused, slots = excluded.slots, generation = excluded.generation;
    END IF;
    IF p_rest ? 'gate' THEN
      INSERT INTO gates AS g SELECT r.* FROM jsonb_populate_recordset(null::gates, p_rest->'gate') r
      {gate};
    END IF;
    IF p_rest ? 'delivery' THEN
      UPDATE webhook_deliveries d SET state = x.state, code = x.code, settled_at = x.settled_at,
        body = CASE WHEN x.state = 'sent' THEN NULL ELSE d.body END
      FROM jsonb_to_recordset(p_rest->'delivery') x(seq bigint, state text, code text, settled_at bigint)
      WHERE d.seq = x.seq;
    END IF;
    IF p_rest ? 'tracking' THEN
      INSERT INTO tracking AS t SELECT r.* FROM jsonb_populate_recordset(null::tracking, p_rest->'tracking') r
      ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id
      WHERE t.notification_id < excluded.notification_id;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'tracking') THEN RAISE EXCEPTION 'tracking' USING ERRCODE = '{bad}'; END IF;
    END IF;
  END IF;
  PERFORM set_config('lock_timeout', '0', true);
  PERFORM {lock};  -- from here to the commit: one appender at a time, so positions follow the order of commits
  SELECT epoch, generation INTO v_epoch, v_generation FROM log_state WHERE id = 1;
  SELECT coalesce(max(position), 0) INTO v_head FROM events;
  IF v_epoch < p_epoch OR (v_epoch = p_epoch AND v_head < p_seen) THEN
    RAISE EXCEPTION '%:%', v_epoch, v_head USING ERRCODE = '{rewound}';
  END IF;
  IF v_epoch <> p_epoch THEN RAISE EXCEPTION '%', v_epoch USING ERRCODE = '{epoch}'; END IF;
  IF v_generation <> p_generation THEN RAISE EXCEPTION '%', v_generation USING ERRCODE = '{generation}'; END IF;
  INSERT INTO events (position, stream_id, version, topic, state)
  SELECT v_head + e.n, e.stream, e.version, e.topic, e.state
  FROM unnest(e_stream, e_version, e_topic, e_state) WITH ORDINALITY e(stream, version, topic, state, n);
  RETURN ARRAY[v_head + 1, joblog_now()];
END $$;
"""

#: As 'set', for the columns that a frequent command moves: four times as fast as a whole row made of JSON.
_FREQUENT: Final = """IF p_rest ? '{name}' THEN
      UPDATE jobs_{p} j SET ({columns}) = ({values})
      FROM jsonb_to_recordset(p_rest->'{name}') x(id uuid, expected bigint, {types})
      WHERE j.id = x.id AND j.version = x.expected;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'{name}') THEN PERFORM joblog_no_row(p_generation); END IF;
    END IF;"""

_CLAIM: Final = """
CREATE OR REPLACE FUNCTION joblog_claim_{p}(
  p_queue text, p_kinds text[], p_shut text[], p_limit int, p_vocabulary bigint, p_after text, p_now bigint, p_crashes bigint
) RETURNS TABLE ({returns}, round bigint, turn int) LANGUAGE plpgsql {settings}
  SET enable_sort = off SET enable_incremental_sort = off AS $$
#variable_conflict use_column
DECLARE
  v_kinds text[] := p_kinds; v_kind text; v_gate text; v_gates text[]; v_priority smallint;
  v_tenant text; v_tenants text[]; v_share int; v_turn int;
BEGIN
  -- A skip scan over the claim index: each probe below is one descent, however many rows lie between two answers.
  IF v_kinds IS NULL THEN
    v_kind := '';
    LOOP
      SELECT j.kind INTO v_kind FROM jobs_{p} j
      WHERE j.ready = 1 AND j.queue = p_queue AND j.kind > v_kind ORDER BY j.kind LIMIT 1;
      EXIT WHEN NOT FOUND;
      v_kinds := v_kinds || v_kind;
    END LOOP;
  END IF;
  FOREACH v_kind IN ARRAY coalesce(v_kinds, ARRAY[]::text[]) LOOP
    v_gates := ARRAY['']; v_gate := '';
    LOOP
      SELECT j.gate INTO v_gate FROM jobs_{p} j
      WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate > v_gate ORDER BY j.gate LIMIT 1;
      EXIT WHEN NOT FOUND;
      IF NOT v_gate = ANY(p_shut) THEN v_gates := v_gates || v_gate; END IF;
    END LOOP;
    FOREACH v_gate IN ARRAY v_gates LOOP
      v_priority := -1;
      LOOP
        SELECT j.priority INTO v_priority FROM jobs_{p} j
        WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority > v_priority
        ORDER BY j.priority LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_tenants := ARRAY[]::text[]; v_tenant := p_after;
        WHILE cardinality(v_tenants) < p_limit LOOP
          SELECT j.tenant INTO v_tenant FROM jobs_{p} j
          WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority = v_priority
            AND j.tenant > v_tenant ORDER BY j.tenant LIMIT 1;
          EXIT WHEN NOT FOUND;
          {counted}
        END LOOP;
        v_tenant := '';
        WHILE p_after <> '' AND cardinality(v_tenants) < p_limit LOOP
          SELECT j.tenant INTO v_tenant FROM jobs_{p} j
          WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority = v_priority
            AND j.tenant > v_tenant AND j.tenant <= p_after ORDER BY j.tenant LIMIT 1;
          EXIT WHEN NOT FOUND;
          {counted}
        END LOOP;
        CONTINUE WHEN cardinality(v_tenants) = 0;
        v_share := ceil(p_limit::numeric / cardinality(v_tenants));
        v_turn := 0;
        FOREACH v_tenant IN ARRAY v_tenants LOOP
          RETURN QUERY
            SELECT h.*, row_number() OVER () - 1, v_turn FROM (
              SELECT {columns} FROM {fitting} v_share FOR UPDATE SKIP LOCKED) h;
          v_turn := v_turn + 1;
        END LOOP;
      END LOOP;
    END LOOP;
  END LOOP;
END $$;
"""

#: What a claim may take of one tenant: due by the store's clock, or when it was written; that clock may be set back.
_FITTING: Final = """jobs_{p} j
              WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate
                AND j.priority = v_priority AND j.tenant = v_tenant AND j.due_at <= greatest(p_now, j.updated_at)
                AND j.vocabulary <= p_vocabulary AND j.crashes <= p_crashes
              ORDER BY j.due_at, j.id LIMIT"""

#: A tenant has a turn only if it has a job that can be taken now.
_COUNTED: Final = """PERFORM 1 FROM {fitting} 1 FOR UPDATE SKIP LOCKED;
          IF FOUND THEN v_tenants := v_tenants || v_tenant; END IF;"""

_MOVED: Final = {
    **dict.fromkeys(("version", "updated_at"), "bigint"),
    **dict.fromkeys(("status", "worker", "reason", "reason_text"), "text"),
    **dict.fromkeys(("ready", "blocked"), "smallint"),
}
#: The columns that a frequent command moves, with their types; those in ``_ONCE`` stay as they are if it does not say.
FREQUENT: Final = {
    "claimed": _MOVED | dict.fromkeys(("token", "attempt", "last_attempt_at", "started_at"), "bigint"),
    "completed": _MOVED | {"wish": "text", "outcome": "text", "finished_at": "bigint"},
}
_ONCE: Final = frozenset({"started_at"})


def frequent(columns: AbstractSet[str]) -> str | None:
    """The frequent command that moves exactly these columns, if it is one."""
    for name, types in FREQUENT.items():
        if types.keys() - _ONCE <= columns <= types.keys():
            return name
    return None


#: What a new job's row holds unless it says otherwise.
UNSAID: Final[dict[str, Any]] = {
    **dict.fromkeys(("wish", "outcome", "reason", "reason_text", "worker", "owner", "gate"), ""),
    **dict.fromkeys(("exclusive_key", "parent_id"), ""),
    **dict.fromkeys(("token", "attempt", "unit_attempt", "crashes", "reclaims", "failures", "done", "skipped"), 0),
    **dict.fromkeys(("sequence", "blocked"), 0),
    **dict.fromkeys(("total", "cursor", "started_at", "last_attempt_at", "finished_at"), None),
    "vocabulary": 1,
    "version": 1,
    "tags": "[]",
    "status": "queued",
}

#: What a worker asks at each poll, and the promoter's look.
_LOOKS: Final = (
    """
CREATE OR REPLACE FUNCTION joblog_free_keys_{p}() RETURNS SETOF text LANGUAGE plpgsql {settings} AS $$
BEGIN
  RETURN QUERY {free_keys};
END $$;
""",
    """
CREATE OR REPLACE FUNCTION joblog_outlook_{p}(p_queues text[], p_presence text) RETURNS TABLE (
  found boolean, due bigint, lease_end bigint, others bigint, live bigint, clock bigint, box boolean, wakes boolean,
  rebooted boolean, crashes bigint
) LANGUAGE plpgsql {settings} AS $$
BEGIN
  RETURN QUERY SELECT
    EXISTS (SELECT 1 FROM unnest(p_queues) q(name) CROSS JOIN LATERAL (
      SELECT 1 FROM jobs_{p} j WHERE j.ready = 1 AND j.queue = q.name LIMIT 1) x),
    (SELECT j.due_at FROM jobs_{p} j WHERE j.ready = 0 AND j.blocked = 0 AND j.status IN ('queued', 'waiting')
     ORDER BY j.due_at LIMIT 1),
    (SELECT min(l.lease_until) FROM leases l),
    (SELECT count(*) FROM leases l WHERE l.presence <> '' AND l.presence <> p_presence),
    (SELECT s.generation FROM log_state s WHERE s.id = 1),
    joblog_now(),
    EXISTS (SELECT 1 FROM outbox),
    EXISTS ({free_keys}),
    false,  -- the clock outlives boots
    (SELECT coalesce(max(x.crashes), 0) FROM unnest(p_queues) q(name) CROSS JOIN LATERAL (
      SELECT j.crashes FROM jobs_{p} j WHERE j.ready = 1 AND j.crashes > 0 AND j.queue = q.name
      ORDER BY j.crashes DESC LIMIT 1) x);
END $$;
""",
    """
CREATE OR REPLACE FUNCTION joblog_due_{p}() RETURNS TABLE (due bigint, clock bigint) LANGUAGE plpgsql {settings} AS $$
BEGIN
  RETURN QUERY SELECT
    (SELECT j.due_at FROM jobs_{p} j WHERE j.ready = 0 AND j.blocked = 0 AND j.status IN ('queued', 'waiting')
     ORDER BY j.due_at LIMIT 1),
    joblog_now();
END $$;
""",
)
#: The exclusive keys with jobs that wait for them and no holder, found key by key over an index.
_FREE_KEYS: Final = """
    WITH RECURSIVE waiting(key) AS (
      SELECT min(j.exclusive_key) FROM jobs_{p} j WHERE j.blocked = 1
      UNION ALL
      SELECT (SELECT min(j.exclusive_key) FROM jobs_{p} j WHERE j.blocked = 1 AND j.exclusive_key > w.key)
      FROM waiting w WHERE w.key IS NOT NULL)
    SELECT w.key FROM waiting w WHERE w.key IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM leases l WHERE l.exclusive_key = w.key AND l.exclusive_key <> '' OFFSET 0)"""

_TYPES: Final = {"id": "uuid", "priority": "smallint"}
_TEXTS: Final = frozenset({"kind", "tenant", "queue", "gate", "exclusive_key"})


def claim_function(parity: int) -> str:
    """The DDL of the choice of due jobs for one generation."""
    types = {name: _TYPES.get(name, "text" if name in _TEXTS else "bigint") for name in CLAIM_COLUMNS}
    returns = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
    columns = ", ".join(f'j."{name}"' for name in CLAIM_COLUMNS)
    fitting = _FITTING.format(p=parity)
    counted = _COUNTED.format(fitting=fitting)
    return _CLAIM.format(
        p=parity, settings=_SETTINGS, returns=returns, columns=columns, fitting=fitting, counted=counted
    )


def append_function(parity: int) -> str:
    """The DDL of the append for one generation."""
    columns = ", ".join(f'"{name}"' for name in JOB_COLUMNS if name != "id")
    commands = "\n    ".join(_frequent(parity, name, types) for name, types in FREQUENT.items())
    codes = {"bad": NOT_AS_EXPECTED, "rewound": REWOUND, "epoch": EPOCH, "generation": GENERATION}
    return _APPEND.format(
        p=parity,
        settings=_SETTINGS,
        nowait=f"{NOWAIT_MS}ms",
        lock=LOCK,
        columns=columns,
        gate=UPSERT,
        frequent=commands,
        unsaid=json.dumps(UNSAID),
        **codes,
    )


def _frequent(parity: int, name: str, types: dict[str, str]) -> str:
    values = (f"coalesce(x.{column}, j.{column})" if column in _ONCE else f"x.{column}" for column in types)
    said = ", ".join(f"{column} {kind}" for column, kind in types.items())
    return _FREQUENT.format(p=parity, name=name, columns=", ".join(types), values=", ".join(values), types=said)


def look_functions(parity: int) -> list[str]:
    """The DDL of what a worker asks at each poll, for one generation."""
    free_keys = _FREE_KEYS.format(p=parity)
    return [text.format(p=parity, settings=_SETTINGS, free_keys=free_keys) for text in _LOOKS]


def all_functions() -> list[str]:
    """Every function, in an order in which they can be created."""
    made = [NOW, NO_ROW, STREAMS]
    for parity in (0, 1):
        made += [append_function(parity), claim_function(parity), *look_functions(parity)]
    return made
