CREATE TABLE archived_streams (
	stream_id UUID NOT NULL, 
	archive BIGINT NOT NULL, 
	PRIMARY KEY (stream_id)
)
--;
CREATE INDEX archived_streams_archive ON archived_streams (archive)
--;
CREATE TABLE archives (
	event BIGINT NOT NULL, 
	name TEXT COLLATE "C" NOT NULL, 
	first BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	events BIGINT NOT NULL, 
	digest TEXT COLLATE "C" NOT NULL, 
	folder TEXT COLLATE "C" NOT NULL, 
	PRIMARY KEY (event), 
	CONSTRAINT archives_name UNIQUE (name)
)
--;
CREATE TABLE consumers (
	name TEXT COLLATE "C" NOT NULL, 
	epoch BIGINT NOT NULL, 
	position BIGINT NOT NULL, 
	moved_at BIGINT NOT NULL, 
	PRIMARY KEY (name)
)
--;
CREATE TABLE credentials (
	tenant TEXT COLLATE "C" NOT NULL, 
	name TEXT COLLATE "C" NOT NULL, 
	sealed BYTEA NOT NULL, 
	updated_at BIGINT NOT NULL, 
	PRIMARY KEY (tenant, name)
)
--;
CREATE TABLE due_jobs (
	generation BIGINT NOT NULL, 
	job_id UUID NOT NULL, 
	due_at BIGINT NOT NULL, 
	status TEXT COLLATE "C" NOT NULL, 
	reason TEXT COLLATE "C" NOT NULL, 
	kind TEXT COLLATE "C" NOT NULL, 
	queue TEXT COLLATE "C" NOT NULL, 
	tenant TEXT COLLATE "C" NOT NULL, 
	priority SMALLINT NOT NULL, 
	PRIMARY KEY (generation, job_id)
)
--;
CREATE INDEX due_jobs_due ON due_jobs (generation, due_at, job_id)
--;
CREATE INDEX due_jobs_queue ON due_jobs (generation, queue, due_at, job_id)
--;
CREATE TABLE events (
	position BIGINT NOT NULL, 
	stream_id UUID NOT NULL, 
	version BIGINT NOT NULL, 
	topic TEXT COLLATE "C" NOT NULL, 
	state BYTEA NOT NULL, 
	PRIMARY KEY (position), 
	CONSTRAINT events_stream_version UNIQUE (stream_id, version)
)
--;
CREATE TABLE failed_jobs (
	generation BIGINT NOT NULL, 
	fingerprint TEXT COLLATE "C" NOT NULL, 
	job_id UUID NOT NULL, 
	count BIGINT NOT NULL, 
	first_at BIGINT NOT NULL, 
	last_at BIGINT NOT NULL, 
	attempt BIGINT NOT NULL, 
	PRIMARY KEY (generation, fingerprint, job_id)
)
--;
CREATE INDEX failed_jobs_job ON failed_jobs (generation, job_id)
--;
CREATE TABLE failures (
	generation BIGINT NOT NULL, 
	fingerprint TEXT COLLATE "C" NOT NULL, 
	kind TEXT COLLATE "C" NOT NULL, 
	category TEXT COLLATE "C" NOT NULL, 
	text TEXT COLLATE "C" NOT NULL, 
	count BIGINT NOT NULL, 
	first_at BIGINT NOT NULL, 
	last_at BIGINT NOT NULL, 
	last_job UUID NOT NULL, 
	last_unit TEXT COLLATE "C" NOT NULL, 
	last_position BIGINT NOT NULL, 
	PRIMARY KEY (generation, fingerprint)
)
--;
CREATE INDEX failures_newest ON failures (generation, last_position)
--;
CREATE TABLE frozen_lists (
	job_id UUID NOT NULL, 
	name TEXT COLLATE "C" NOT NULL, 
	chunk BIGINT NOT NULL, 
	items BYTEA NOT NULL, 
	PRIMARY KEY (job_id, name, chunk)
)
--;
CREATE TABLE gate_turns (
	gate TEXT COLLATE "C" NOT NULL, 
	entry TEXT COLLATE "C" NOT NULL, 
	job_id UUID NOT NULL, 
	epoch BIGINT NOT NULL, 
	token BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	holds SMALLINT NOT NULL, 
	PRIMARY KEY (gate, entry)
)
--;
CREATE INDEX gate_turns_at ON gate_turns (gate, holds, at)
--;
CREATE INDEX gate_turns_job ON gate_turns (gate, job_id)
--;
CREATE TABLE gates (
	gate TEXT COLLATE "C" NOT NULL, 
	slots BIGINT, 
	spacing BIGINT NOT NULL, 
	pinned SMALLINT NOT NULL, 
	closed_until BIGINT NOT NULL, 
	closed_by TEXT COLLATE "C" NOT NULL, 
	closed_reason TEXT COLLATE "C" NOT NULL, 
	closed_at BIGINT NOT NULL, 
	next_at BIGINT NOT NULL, 
	last_at BIGINT NOT NULL, 
	PRIMARY KEY (gate)
)
 WITH (fillfactor = 70)
--;
CREATE TABLE job_counts (
	generation BIGINT NOT NULL, 
	tenant TEXT COLLATE "C" NOT NULL, 
	status TEXT COLLATE "C" NOT NULL, 
	kind TEXT COLLATE "C" NOT NULL, 
	queue TEXT COLLATE "C" NOT NULL, 
	jobs BIGINT NOT NULL, 
	PRIMARY KEY (generation, tenant, status, kind, queue)
)
--;
CREATE TABLE job_versions (
	generation BIGINT NOT NULL, 
	from_position BIGINT NOT NULL, 
	job_id UUID NOT NULL, 
	to_position BIGINT NOT NULL, 
	from_at BIGINT NOT NULL, 
	to_at BIGINT NOT NULL, 
	status TEXT COLLATE "C" NOT NULL, 
	worker TEXT COLLATE "C" NOT NULL, 
	attempt BIGINT NOT NULL, 
	reason TEXT COLLATE "C" NOT NULL, 
	kind TEXT COLLATE "C" NOT NULL, 
	queue TEXT COLLATE "C" NOT NULL, 
	tenant TEXT COLLATE "C" NOT NULL, 
	PRIMARY KEY (generation, from_position, job_id)
)
--;
CREATE INDEX job_versions_job ON job_versions (generation, job_id, from_position)
--;
CREATE INDEX job_versions_time ON job_versions (generation, from_at)
--;
CREATE TABLE jobs_0 (
	id UUID NOT NULL, 
	version BIGINT NOT NULL, 
	vocabulary BIGINT NOT NULL, 
	kind TEXT COLLATE "C" NOT NULL, 
	tenant TEXT COLLATE "C" NOT NULL, 
	owner TEXT COLLATE "C" NOT NULL, 
	queue TEXT COLLATE "C" NOT NULL, 
	priority SMALLINT NOT NULL, 
	gate TEXT COLLATE "C" NOT NULL, 
	exclusive_key TEXT COLLATE "C" NOT NULL, 
	parent_id TEXT COLLATE "C" NOT NULL, 
	key TEXT COLLATE "C" NOT NULL, 
	args_digest TEXT COLLATE "C" NOT NULL, 
	tags TEXT COLLATE "C" NOT NULL, 
	status TEXT COLLATE "C" NOT NULL, 
	wish TEXT COLLATE "C" NOT NULL, 
	outcome TEXT COLLATE "C" NOT NULL, 
	reason TEXT COLLATE "C" NOT NULL, 
	reason_text TEXT COLLATE "C" NOT NULL, 
	due_at BIGINT NOT NULL, 
	ready SMALLINT NOT NULL, 
	blocked SMALLINT NOT NULL, 
	worker TEXT COLLATE "C" NOT NULL, 
	token BIGINT NOT NULL, 
	attempt BIGINT NOT NULL, 
	unit_attempt BIGINT NOT NULL, 
	crashes BIGINT NOT NULL, 
	reclaims BIGINT NOT NULL, 
	failures BIGINT NOT NULL, 
	done BIGINT NOT NULL, 
	skipped BIGINT NOT NULL, 
	total BIGINT, 
	sequence BIGINT NOT NULL, 
	cursor TEXT COLLATE "C", 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	started_at BIGINT, 
	last_attempt_at BIGINT, 
	finished_at BIGINT, 
	PRIMARY KEY (id)
)
 WITH (fillfactor = 70)
--;
CREATE INDEX jobs_0_blocked ON jobs_0 (exclusive_key, priority, due_at, id) WHERE blocked = 1
--;
CREATE INDEX jobs_0_claim ON jobs_0 (queue, kind, gate, priority, tenant, due_at, id) WHERE ready = 1
--;
CREATE INDEX jobs_0_created ON jobs_0 (created_at, id)
--;
CREATE INDEX jobs_0_due ON jobs_0 (due_at, id) WHERE ready = 0 AND blocked = 0 AND status IN ('queued', 'waiting')
--;
CREATE INDEX jobs_0_kind ON jobs_0 (kind, created_at, id) WHERE kind != ''
--;
CREATE INDEX jobs_0_owner ON jobs_0 (owner, created_at, id) WHERE owner != ''
--;
CREATE INDEX jobs_0_parent ON jobs_0 (parent_id, id) WHERE parent_id != ''
--;
CREATE INDEX jobs_0_queue ON jobs_0 (queue, created_at, id) WHERE queue != ''
--;
CREATE INDEX jobs_0_status ON jobs_0 (status, created_at, id)
--;
CREATE INDEX jobs_0_suspects ON jobs_0 (queue, crashes) WHERE ready = 1 AND crashes > 0
--;
CREATE INDEX jobs_0_tenant ON jobs_0 (tenant, created_at, id) WHERE tenant != ''
--;
CREATE TABLE jobs_1 (
	id UUID NOT NULL, 
	version BIGINT NOT NULL, 
	vocabulary BIGINT NOT NULL, 
	kind TEXT COLLATE "C" NOT NULL, 
	tenant TEXT COLLATE "C" NOT NULL, 
	owner TEXT COLLATE "C" NOT NULL, 
	queue TEXT COLLATE "C" NOT NULL, 
	priority SMALLINT NOT NULL, 
	gate TEXT COLLATE "C" NOT NULL, 
	exclusive_key TEXT COLLATE "C" NOT NULL, 
	parent_id TEXT COLLATE "C" NOT NULL, 
	key TEXT COLLATE "C" NOT NULL, 
	args_digest TEXT COLLATE "C" NOT NULL, 
	tags TEXT COLLATE "C" NOT NULL, 
	status TEXT COLLATE "C" NOT NULL, 
	wish TEXT COLLATE "C" NOT NULL, 
	outcome TEXT COLLATE "C" NOT NULL, 
	reason TEXT COLLATE "C" NOT NULL, 
	reason_text TEXT COLLATE "C" NOT NULL, 
	due_at BIGINT NOT NULL, 
	ready SMALLINT NOT NULL, 
	blocked SMALLINT NOT NULL, 
	worker TEXT COLLATE "C" NOT NULL, 
	token BIGINT NOT NULL, 
	attempt BIGINT NOT NULL, 
	unit_attempt BIGINT NOT NULL, 
	crashes BIGINT NOT NULL, 
	reclaims BIGINT NOT NULL, 
	failures BIGINT NOT NULL, 
	done BIGINT NOT NULL, 
	skipped BIGINT NOT NULL, 
	total BIGINT, 
	sequence BIGINT NOT NULL, 
	cursor TEXT COLLATE "C", 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	started_at BIGINT, 
	last_attempt_at BIGINT, 
	finished_at BIGINT, 
	PRIMARY KEY (id)
)
 WITH (fillfactor = 70)
--;
CREATE INDEX jobs_1_blocked ON jobs_1 (exclusive_key, priority, due_at, id) WHERE blocked = 1
--;
CREATE INDEX jobs_1_claim ON jobs_1 (queue, kind, gate, priority, tenant, due_at, id) WHERE ready = 1
--;
CREATE INDEX jobs_1_created ON jobs_1 (created_at, id)
--;
CREATE INDEX jobs_1_due ON jobs_1 (due_at, id) WHERE ready = 0 AND blocked = 0 AND status IN ('queued', 'waiting')
--;
CREATE INDEX jobs_1_kind ON jobs_1 (kind, created_at, id) WHERE kind != ''
--;
CREATE INDEX jobs_1_owner ON jobs_1 (owner, created_at, id) WHERE owner != ''
--;
CREATE INDEX jobs_1_parent ON jobs_1 (parent_id, id) WHERE parent_id != ''
--;
CREATE INDEX jobs_1_queue ON jobs_1 (queue, created_at, id) WHERE queue != ''
--;
CREATE INDEX jobs_1_status ON jobs_1 (status, created_at, id)
--;
CREATE INDEX jobs_1_suspects ON jobs_1 (queue, crashes) WHERE ready = 1 AND crashes > 0
--;
CREATE INDEX jobs_1_tenant ON jobs_1 (tenant, created_at, id) WHERE tenant != ''
--;
CREATE TABLE leases (
	job_id UUID NOT NULL, 
	epoch BIGINT NOT NULL, 
	token BIGINT NOT NULL, 
	worker TEXT COLLATE "C" NOT NULL, 
	lease_until BIGINT NOT NULL, 
	boot_id TEXT COLLATE "C" NOT NULL, 
	queue TEXT COLLATE "C" NOT NULL, 
	gate TEXT COLLATE "C" NOT NULL, 
	exclusive_key TEXT COLLATE "C" NOT NULL, 
	presence TEXT COLLATE "C" NOT NULL, 
	PRIMARY KEY (job_id)
)
 WITH (fillfactor = 70)
--;
CREATE UNIQUE INDEX leases_exclusive ON leases (exclusive_key) WHERE exclusive_key != ''
--;
CREATE INDEX leases_gate ON leases (gate) WHERE gate != ''
--;
CREATE INDEX leases_queue ON leases (queue)
--;
CREATE INDEX leases_until ON leases (lease_until)
--;
CREATE TABLE letters (
	id TEXT COLLATE "C" NOT NULL, 
	digest TEXT COLLATE "C" NOT NULL, 
	content BYTEA NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (id)
)
--;
CREATE TABLE log_state (
	id SMALLINT NOT NULL, 
	store_id UUID NOT NULL, 
	epoch BIGINT NOT NULL, 
	generation BIGINT NOT NULL, 
	schema_version BIGINT NOT NULL, 
	min_code BIGINT NOT NULL, 
	PRIMARY KEY (id)
)
--;
CREATE TABLE outbox (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	job_id UUID NOT NULL, 
	spec TEXT COLLATE "C" NOT NULL, 
	PRIMARY KEY (id)
)
--;
CREATE INDEX outbox_job ON outbox (job_id)
--;
CREATE TABLE projections (
	name TEXT COLLATE "C" NOT NULL, 
	version BIGINT NOT NULL, 
	generation BIGINT NOT NULL, 
	owner TEXT COLLATE "C" NOT NULL, 
	token BIGINT NOT NULL, 
	alive_until BIGINT NOT NULL, 
	stopped_at BIGINT, 
	reason TEXT COLLATE "C" NOT NULL, 
	old_until BIGINT, 
	PRIMARY KEY (name)
)
--;
CREATE TABLE queues (
	queue TEXT COLLATE "C" NOT NULL, 
	paused SMALLINT NOT NULL, 
	slots BIGINT, 
	generation BIGINT NOT NULL, 
	PRIMARY KEY (queue)
)
--;
CREATE TABLE rebuilds (
	name TEXT COLLATE "C" NOT NULL, 
	version BIGINT NOT NULL, 
	generation BIGINT NOT NULL, 
	position BIGINT NOT NULL, 
	owner TEXT COLLATE "C" NOT NULL, 
	alive_until BIGINT NOT NULL, 
	PRIMARY KEY (name)
)
--;
CREATE TABLE receipts (
	request_id TEXT COLLATE "C" NOT NULL, 
	action TEXT COLLATE "C" NOT NULL, 
	target TEXT COLLATE "C" NOT NULL, 
	actor TEXT COLLATE "C" NOT NULL, 
	answer TEXT COLLATE "C" NOT NULL, 
	PRIMARY KEY (request_id)
)
--;
CREATE TABLE recovery_rows (
	generation BIGINT NOT NULL, 
	position BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	recorded_at BIGINT NOT NULL, 
	type TEXT COLLATE "C" NOT NULL, 
	database TEXT COLLATE "C" NOT NULL, 
	detail TEXT COLLATE "C" NOT NULL, 
	severity TEXT COLLATE "C" NOT NULL, 
	source TEXT COLLATE "C" NOT NULL, 
	done SMALLINT NOT NULL, 
	deleted SMALLINT NOT NULL, 
	actor_id TEXT COLLATE "C" NOT NULL, 
	actor_name TEXT COLLATE "C" NOT NULL, 
	ipv4 TEXT COLLATE "C" NOT NULL, 
	ipv6 TEXT COLLATE "C" NOT NULL, 
	ids TEXT COLLATE "C" NOT NULL, 
	titles TEXT COLLATE "C" NOT NULL, 
	job_id TEXT COLLATE "C" NOT NULL, 
	operation TEXT COLLATE "C" NOT NULL, 
	provider TEXT COLLATE "C" NOT NULL, 
	checkpoint BIGINT, 
	attempt BIGINT, 
	next_retry_at BIGINT, 
	reason TEXT COLLATE "C" NOT NULL, 
	reclaimed SMALLINT NOT NULL, 
	tenant TEXT COLLATE "C" NOT NULL, 
	needle TEXT COLLATE "C" NOT NULL, 
	PRIMARY KEY (generation, position)
)
--;
CREATE INDEX recovery_rows_deleted ON recovery_rows (generation, deleted, at, position)
--;
CREATE INDEX recovery_rows_done ON recovery_rows (generation, done, at, position)
--;
CREATE INDEX recovery_rows_newest ON recovery_rows (generation, at, position)
--;
CREATE TABLE security_rows (
	generation BIGINT NOT NULL, 
	id UUID NOT NULL, 
	category TEXT COLLATE "C" NOT NULL, 
	action TEXT COLLATE "C" NOT NULL, 
	source TEXT COLLATE "C" NOT NULL, 
	severity TEXT COLLATE "C" NOT NULL, 
	refusal TEXT COLLATE "C" NOT NULL, 
	count BIGINT NOT NULL, 
	first_at BIGINT NOT NULL, 
	last_at BIGINT NOT NULL, 
	actor TEXT COLLATE "C" NOT NULL, 
	ipv4 TEXT COLLATE "C" NOT NULL, 
	ipv6 TEXT COLLATE "C" NOT NULL, 
	detail TEXT COLLATE "C" NOT NULL, 
	actors TEXT COLLATE "C" NOT NULL, 
	addresses TEXT COLLATE "C" NOT NULL, 
	more_actors BIGINT NOT NULL, 
	more_addresses BIGINT NOT NULL, 
	last_position BIGINT NOT NULL, 
	PRIMARY KEY (generation, id)
)
--;
CREATE INDEX security_rows_newest ON security_rows (generation, last_position)
--;
CREATE TABLE snapshots (
	stream_id UUID NOT NULL, 
	version BIGINT NOT NULL, 
	topic TEXT COLLATE "C" NOT NULL, 
	state BYTEA NOT NULL, 
	vocabulary BIGINT NOT NULL, 
	PRIMARY KEY (stream_id)
)
--;
CREATE TABLE tokens (
	id TEXT COLLATE "C" NOT NULL, 
	name TEXT COLLATE "C" NOT NULL, 
	purpose TEXT COLLATE "C" NOT NULL, 
	hash TEXT COLLATE "C" NOT NULL, 
	scopes TEXT COLLATE "C" NOT NULL, 
	tenant TEXT COLLATE "C" NOT NULL, 
	owner TEXT COLLATE "C" NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	used_at BIGINT, 
	revoked_at BIGINT, 
	PRIMARY KEY (id)
)
--;
CREATE TABLE tracking (
	application_name TEXT COLLATE "C" NOT NULL, 
	notification_id BIGINT NOT NULL, 
	PRIMARY KEY (application_name)
)
--;
CREATE TABLE tree_heads (
	epoch BIGINT NOT NULL, 
	size BIGINT NOT NULL, 
	signed_at BIGINT NOT NULL, 
	note TEXT COLLATE "C" NOT NULL, 
	PRIMARY KEY (epoch, size)
)
--;
CREATE TABLE tree_tiles (
	level SMALLINT NOT NULL, 
	number BIGINT NOT NULL, 
	hashes BYTEA NOT NULL, 
	PRIMARY KEY (level, number)
)
--;
CREATE TABLE unit_results (
	job_id UUID NOT NULL, 
	unit TEXT COLLATE "C" NOT NULL, 
	version BIGINT NOT NULL, 
	state BYTEA NOT NULL, 
	PRIMARY KEY (job_id, unit)
)
--;
CREATE TABLE view_state (
	view TEXT COLLATE "C" NOT NULL, 
	generation BIGINT NOT NULL, 
	key UUID NOT NULL, 
	state TEXT COLLATE "C" NOT NULL, 
	PRIMARY KEY (view, generation, key)
)
--;
CREATE TABLE webhook_deliveries (
	seq BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	id TEXT COLLATE "C" NOT NULL, 
	tenant TEXT COLLATE "C" NOT NULL, 
	destination TEXT COLLATE "C" NOT NULL, 
	event TEXT COLLATE "C" NOT NULL, 
	revision BIGINT NOT NULL, 
	digest TEXT COLLATE "C" NOT NULL, 
	body BYTEA, 
	state TEXT COLLATE "C" NOT NULL, 
	code TEXT COLLATE "C" NOT NULL, 
	created_at BIGINT NOT NULL, 
	settled_at BIGINT, 
	PRIMARY KEY (seq), 
	CONSTRAINT webhook_deliveries_event UNIQUE (tenant, destination, event)
)
--;
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (tenant, destination, seq) WHERE state = 'pending'
--;
CREATE TABLE webhook_destinations (
	tenant TEXT COLLATE "C" NOT NULL, 
	name TEXT COLLATE "C" NOT NULL, 
	url TEXT COLLATE "C" NOT NULL, 
	secrets TEXT COLLATE "C" NOT NULL, 
	enabled SMALLINT NOT NULL, 
	reason TEXT COLLATE "C" NOT NULL, 
	revision BIGINT NOT NULL, 
	courier BIGINT NOT NULL, 
	idle SMALLINT NOT NULL, 
	changed_by TEXT COLLATE "C" NOT NULL, 
	changed_at BIGINT NOT NULL, 
	PRIMARY KEY (tenant, name)
)
--;
CREATE OR REPLACE FUNCTION joblog_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the log is insert-only' USING ERRCODE = 'JL009'; END $$
--;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events FOR EACH STATEMENT EXECUTE FUNCTION joblog_refuse()
--;
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION joblog_refuse()
--;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_no_delete
--;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_no_truncate
--;
CREATE OR REPLACE FUNCTION joblog_may_empty() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF (NEW.position, NEW.stream_id, NEW.version, NEW.topic, NEW.state) IS NOT DISTINCT FROM (OLD.position, OLD.stream_id, OLD.version, OLD.topic, ''::bytea) AND EXISTS (
  SELECT 1 FROM archived_streams s JOIN archives a ON a.event = s.archive
  WHERE s.stream_id = NEW.stream_id AND NEW.position BETWEEN a.first AND a.last
    AND a.event = (SELECT max(position) FROM events)
    AND a.last <= (SELECT max(h.size) FROM tree_heads h WHERE h.epoch = (SELECT epoch FROM log_state WHERE id = 1))
    AND a.last <= (SELECT t.notification_id FROM tracking t WHERE t.application_name = 'tree')) THEN RETURN NEW; END IF;
RAISE EXCEPTION 'the log is insert-only' USING ERRCODE = 'JL009'; END $$
--;
CREATE OR REPLACE FUNCTION joblog_may_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF (NEW.event, NEW.name, NEW.first, NEW.last, NEW.events, NEW.digest) IS NOT DISTINCT FROM (OLD.event, OLD.name, OLD.first, OLD.last, OLD.events, OLD.digest) THEN RETURN NEW; END IF;
RAISE EXCEPTION 'the log is insert-only' USING ERRCODE = 'JL009'; END $$
--;
CREATE OR REPLACE FUNCTION joblog_is_recorded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF EXISTS (
  SELECT 1 FROM events e WHERE e.position = NEW.event AND e.position = (SELECT max(position) FROM events)
    AND e.topic = 'joblog.log.archived' AND e.stream_id = '7e0e9a52-3c70-4a92-8f37-0f3a1c7b9e55' AND (convert_from(e.state, 'UTF8')::jsonb->>'name') = NEW.name AND (convert_from(e.state, 'UTF8')::jsonb->>'first')::bigint = NEW.first AND (convert_from(e.state, 'UTF8')::jsonb->>'last')::bigint = NEW.last AND (convert_from(e.state, 'UTF8')::jsonb->>'events')::bigint = NEW.events AND (convert_from(e.state, 'UTF8')::jsonb->>'digest') = NEW.digest) THEN RETURN NEW; END IF;
RAISE EXCEPTION 'no such archive is recorded by the newest event' USING ERRCODE = 'JL009'; END $$
--;
CREATE OR REPLACE FUNCTION joblog_is_recording() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF NOT EXISTS (SELECT 1 FROM archives WHERE event = NEW.archive) AND EXISTS (
  SELECT 1 FROM events e WHERE e.position = NEW.archive AND e.position = (SELECT max(position) FROM events)
    AND e.topic = 'joblog.log.archived' AND e.stream_id = '7e0e9a52-3c70-4a92-8f37-0f3a1c7b9e55') THEN RETURN NEW; END IF;
RAISE EXCEPTION 'no such archive is recorded by the newest event' USING ERRCODE = 'JL009'; END $$
--;
CREATE TRIGGER events_no_update BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION joblog_may_empty()
--;
CREATE TRIGGER archives_no_delete BEFORE DELETE ON archives FOR EACH STATEMENT EXECUTE FUNCTION joblog_refuse()
--;
CREATE TRIGGER archives_no_truncate BEFORE TRUNCATE ON archives FOR EACH STATEMENT EXECUTE FUNCTION joblog_refuse()
--;
CREATE TRIGGER archives_no_update BEFORE UPDATE ON archives FOR EACH ROW EXECUTE FUNCTION joblog_may_move()
--;
CREATE TRIGGER archives_recorded BEFORE INSERT ON archives FOR EACH ROW EXECUTE FUNCTION joblog_is_recorded()
--;
CREATE TRIGGER archived_streams_no_delete BEFORE DELETE OR UPDATE ON archived_streams FOR EACH STATEMENT EXECUTE FUNCTION joblog_refuse()
--;
CREATE TRIGGER archived_streams_no_truncate BEFORE TRUNCATE ON archived_streams FOR EACH STATEMENT EXECUTE FUNCTION joblog_refuse()
--;
CREATE TRIGGER archived_streams_recorded BEFORE INSERT ON archived_streams FOR EACH ROW EXECUTE FUNCTION joblog_is_recording()
--;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_no_update
--;
ALTER TABLE archives ENABLE ALWAYS TRIGGER archives_no_delete
--;
ALTER TABLE archives ENABLE ALWAYS TRIGGER archives_no_truncate
--;
ALTER TABLE archives ENABLE ALWAYS TRIGGER archives_no_update
--;
ALTER TABLE archives ENABLE ALWAYS TRIGGER archives_recorded
--;
ALTER TABLE archived_streams ENABLE ALWAYS TRIGGER archived_streams_no_delete
--;
ALTER TABLE archived_streams ENABLE ALWAYS TRIGGER archived_streams_no_truncate
--;
ALTER TABLE archived_streams ENABLE ALWAYS TRIGGER archived_streams_recorded
--;
ALTER TABLE leases SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)
--;
ALTER TABLE jobs_0 SET (autovacuum_vacuum_scale_factor = 0.02)
--;
ALTER TABLE jobs_1 SET (autovacuum_vacuum_scale_factor = 0.02)
--;
ALTER TABLE events ALTER COLUMN state SET STORAGE EXTERNAL
--;
CREATE OR REPLACE FUNCTION joblog_now() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
--;
CREATE OR REPLACE FUNCTION joblog_no_row(p_generation bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_generation bigint;
BEGIN
  SELECT generation INTO v_generation FROM log_state WHERE id = 1;
  IF v_generation <> p_generation THEN RAISE EXCEPTION '%', v_generation USING ERRCODE = 'JL002'; END IF;
  RAISE EXCEPTION 'job rows' USING ERRCODE = 'JL001';
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_streams(p_streams uuid[]) RETURNS TABLE (
  number bigint, kind int, version bigint, topic text, state bytea
) LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY WITH i AS (SELECT * FROM unnest(p_streams) WITH ORDINALITY AS i(id, n))
    SELECT i.n, 0 AS k, s.version, s.topic, s.state FROM i JOIN snapshots s ON s.stream_id = i.id
    UNION ALL SELECT i.n, 1, e.version, e.topic, e.state FROM i CROSS JOIN LATERAL (
      SELECT coalesce((SELECT s.version FROM snapshots s WHERE s.stream_id = i.id), 0) AS after) a
    JOIN events e ON e.stream_id = i.id AND e.version > a.after ORDER BY 1, 2, 3;
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_append_0(
  p_epoch bigint, p_seen bigint, p_generation bigint, p_wait boolean,
  e_stream uuid[], e_version bigint[], e_topic text[], e_state bytea[],
  e_unit text[],
  h_id uuid[], h_expected bigint[], h_version bigint[], h_updated bigint[], h_done bigint[], h_sequence bigint[],
  h_cursor text[], h_token bigint[], h_renew bigint[],
  p_new json, p_rest jsonb
) RETURNS bigint[] LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now bigint; v_head bigint; v_epoch bigint; v_generation bigint; n int; want int; v_key text;
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  IF NOT p_wait THEN PERFORM set_config('lock_timeout', '10ms', true); END IF;
  -- lock order everywhere: unit keys, job rows (sorted by the caller), leases, the log
  IF e_unit IS NOT NULL THEN  -- unnest reads an array once; a subscript walks to its element each time
    INSERT INTO unit_results (job_id, unit, version, state)
    SELECT e.stream, e.unit, e.version, e.state FROM unnest(e_stream, e_unit, e_version, e_state) e(stream, unit, version, state)
    WHERE e.unit IS NOT NULL;
  END IF;
  IF p_rest IS NOT NULL AND p_rest ? 'evidence' THEN
    IF EXISTS (SELECT 1 FROM jsonb_to_recordset(p_rest->'evidence') x(job_id uuid, n bigint)
               WHERE (SELECT count(*) FROM unit_results u WHERE u.job_id = x.job_id) <> x.n) THEN
      RAISE EXCEPTION 'evidence is missing' USING ERRCODE = 'JL001';
    END IF;
  END IF;
  IF h_id IS NOT NULL THEN
    UPDATE jobs_0 j SET version = h.version, updated_at = h.updated, done = h.done, sequence = h.sequence,
      cursor = h.cursor, unit_attempt = 0, crashes = 0
    FROM unnest(h_id, h_expected, h_version, h_updated, h_done, h_sequence, h_cursor)
      h(id, expected, version, updated, done, sequence, cursor)
    WHERE j.id = h.id AND j.version = h.expected;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n <> cardinality(h_id) THEN PERFORM joblog_no_row(p_generation); END IF;
    v_now := joblog_now();
    SELECT count(*) INTO n FROM unnest(h_id, h_token) h(id, token)
      JOIN leases l ON l.job_id = h.id AND l.token = h.token AND l.epoch = p_epoch AND l.lease_until > v_now;
    IF n <> cardinality(h_id) THEN RAISE EXCEPTION 'leases' USING ERRCODE = 'JL001'; END IF;
    IF h_renew IS NOT NULL THEN
      UPDATE leases l SET lease_until = greatest(l.lease_until, v_now + h.renew) FROM unnest(h_id, h_renew) h(id, renew)
      WHERE l.job_id = h.id AND h.renew > 0;
    END IF;
  END IF;
  IF p_new IS NOT NULL THEN
    INSERT INTO jobs_0 SELECT r.*
    FROM json_populate_recordset(json_populate_record(null::jobs_0, '{"wish": "", "outcome": "", "reason": "", "reason_text": "", "worker": "", "owner": "", "gate": "", "exclusive_key": "", "parent_id": "", "token": 0, "attempt": 0, "unit_attempt": 0, "crashes": 0, "reclaims": 0, "failures": 0, "done": 0, "skipped": 0, "sequence": 0, "blocked": 0, "total": null, "cursor": null, "started_at": null, "last_attempt_at": null, "finished_at": null, "vocabulary": 1, "version": 1, "tags": "[]", "status": "queued"}'), p_new) r;
  END IF;
  IF p_rest IS NOT NULL THEN
    v_now := joblog_now();
    -- The unique key alone would take an event far ahead of its stream; a hot append was made from a replay.
    IF p_rest ? 'after' AND EXISTS (
      SELECT 1 FROM jsonb_to_recordset(p_rest->'after') x(id uuid, version bigint)
      WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.stream_id = x.id AND e.version = x.version)) THEN
      RAISE EXCEPTION 'stream versions' USING ERRCODE = 'JL001';
    END IF;
    IF p_rest ? 'set' THEN
      UPDATE jobs_0 j SET ("version", "vocabulary", "kind", "tenant", "owner", "queue", "priority", "gate", "exclusive_key", "parent_id", "key", "args_digest", "tags", "status", "wish", "outcome", "reason", "reason_text", "due_at", "ready", "blocked", "worker", "token", "attempt", "unit_attempt", "crashes", "reclaims", "failures", "done", "skipped", "total", "sequence", "cursor", "created_at", "updated_at", "started_at", "last_attempt_at", "finished_at") = (SELECT "version", "vocabulary", "kind", "tenant", "owner", "queue", "priority", "gate", "exclusive_key", "parent_id", "key", "args_digest", "tags", "status", "wish", "outcome", "reason", "reason_text", "due_at", "ready", "blocked", "worker", "token", "attempt", "unit_attempt", "crashes", "reclaims", "failures", "done", "skipped", "total", "sequence", "cursor", "created_at", "updated_at", "started_at", "last_attempt_at", "finished_at" FROM jsonb_populate_record(j, x.c))
      FROM jsonb_to_recordset(p_rest->'set') x(id uuid, expected bigint, c jsonb)
      WHERE j.id = x.id AND j.version = x.expected;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'set') THEN PERFORM joblog_no_row(p_generation); END IF;
    END IF;
    IF p_rest ? 'claimed' THEN
      UPDATE jobs_0 j SET (version, updated_at, status, worker, reason, reason_text, ready, blocked, token, attempt, last_attempt_at, started_at) = (x.version, x.updated_at, x.status, x.worker, x.reason, x.reason_text, x.ready, x.blocked, x.token, x.attempt, x.last_attempt_at, coalesce(x.started_at, j.started_at))
      FROM jsonb_to_recordset(p_rest->'claimed') x(id uuid, expected bigint, version bigint, updated_at bigint, status text, worker text, reason text, reason_text text, ready smallint, blocked smallint, token bigint, attempt bigint, last_attempt_at bigint, started_at bigint)
      WHERE j.id = x.id AND j.version = x.expected;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'claimed') THEN PERFORM joblog_no_row(p_generation); END IF;
    END IF;
    IF p_rest ? 'completed' THEN
      UPDATE jobs_0 j SET (version, updated_at, status, worker, reason, reason_text, ready, blocked, wish, outcome, finished_at) = (x.version, x.updated_at, x.status, x.worker, x.reason, x.reason_text, x.ready, x.blocked, x.wish, x.outcome, x.finished_at)
      FROM jsonb_to_recordset(p_rest->'completed') x(id uuid, expected bigint, version bigint, updated_at bigint, status text, worker text, reason text, reason_text text, ready smallint, blocked smallint, wish text, outcome text, finished_at bigint)
      WHERE j.id = x.id AND j.version = x.expected;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'completed') THEN PERFORM joblog_no_row(p_generation); END IF;
    END IF;
    IF p_rest ? 'fence' THEN
      SELECT count(*) INTO n FROM jsonb_to_recordset(p_rest->'fence') x(id uuid, epoch bigint, token bigint)
        JOIN leases l ON l.job_id = x.id AND l.token = x.token AND l.epoch = x.epoch AND l.lease_until > v_now;
      IF n <> jsonb_array_length(p_rest->'fence') THEN RAISE EXCEPTION 'leases' USING ERRCODE = 'JL001'; END IF;
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
          UPDATE jobs_0 SET ready = 1, blocked = 0 WHERE id = (
            SELECT id FROM jobs_0 WHERE exclusive_key = v_key AND blocked = 1 ORDER BY priority, due_at, id LIMIT 1
            FOR UPDATE SKIP LOCKED);
        END IF;
      END LOOP;
      IF n <> want THEN RAISE EXCEPTION 'leases' USING ERRCODE = 'JL001'; END IF;
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
      ON CONFLICT (gate) DO UPDATE SET slots = CASE WHEN excluded.pinned = 0 THEN g.slots ELSE excluded.slots END, spacing = CASE WHEN excluded.pinned = 0 THEN g.spacing ELSE excluded.spacing END, pinned = CASE WHEN excluded.pinned = 0 THEN g.pinned ELSE excluded.pinned END, closed_until = CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) THEN g.closed_until ELSE excluded.closed_until END, closed_by = CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) THEN g.closed_by ELSE excluded.closed_by END, closed_reason = CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) THEN g.closed_reason ELSE excluded.closed_reason END, closed_at = CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) THEN g.closed_at ELSE excluded.closed_at END;
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
      IF n <> jsonb_array_length(p_rest->'tracking') THEN RAISE EXCEPTION 'tracking' USING ERRCODE = 'JL001'; END IF;
    END IF;
  END IF;
  PERFORM set_config('lock_timeout', '0', true);
  PERFORM pg_advisory_xact_lock(7460711, ('events'::regclass::oid::bigint - 2147483648)::int);  -- from here to the commit: one appender at a time, so positions follow the order of commits
  SELECT epoch, generation INTO v_epoch, v_generation FROM log_state WHERE id = 1;
  SELECT coalesce(max(position), 0) INTO v_head FROM events;
  IF v_epoch < p_epoch OR (v_epoch = p_epoch AND v_head < p_seen) THEN
    RAISE EXCEPTION '%:%', v_epoch, v_head USING ERRCODE = 'JL003';
  END IF;
  IF v_epoch <> p_epoch THEN RAISE EXCEPTION '%', v_epoch USING ERRCODE = 'JL004'; END IF;
  IF v_generation <> p_generation THEN RAISE EXCEPTION '%', v_generation USING ERRCODE = 'JL002'; END IF;
  INSERT INTO events (position, stream_id, version, topic, state)
  SELECT v_head + e.n, e.stream, e.version, e.topic, e.state
  FROM unnest(e_stream, e_version, e_topic, e_state) WITH ORDINALITY e(stream, version, topic, state, n);
  RETURN ARRAY[v_head + 1, joblog_now()];
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_claim_0(
  p_queue text, p_kinds text[], p_shut text[], p_limit int, p_vocabulary bigint, p_after text, p_now bigint, p_crashes bigint
) RETURNS TABLE ("id" uuid, "version" bigint, "vocabulary" bigint, "kind" text, "tenant" text, "queue" text, "priority" smallint, "gate" text, "exclusive_key" text, "due_at" bigint, "token" bigint, "attempt" bigint, "crashes" bigint, "updated_at" bigint, round bigint, turn int) LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan
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
      SELECT j.kind INTO v_kind FROM jobs_0 j
      WHERE j.ready = 1 AND j.queue = p_queue AND j.kind > v_kind ORDER BY j.kind LIMIT 1;
      EXIT WHEN NOT FOUND;
      v_kinds := v_kinds || v_kind;
    END LOOP;
  END IF;
  FOREACH v_kind IN ARRAY coalesce(v_kinds, ARRAY[]::text[]) LOOP
    v_gates := ARRAY['']; v_gate := '';
    LOOP
      SELECT j.gate INTO v_gate FROM jobs_0 j
      WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate > v_gate ORDER BY j.gate LIMIT 1;
      EXIT WHEN NOT FOUND;
      IF NOT v_gate = ANY(p_shut) THEN v_gates := v_gates || v_gate; END IF;
    END LOOP;
    FOREACH v_gate IN ARRAY v_gates LOOP
      v_priority := -1;
      LOOP
        SELECT j.priority INTO v_priority FROM jobs_0 j
        WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority > v_priority
        ORDER BY j.priority LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_tenants := ARRAY[]::text[]; v_tenant := p_after;
        WHILE cardinality(v_tenants) < p_limit LOOP
          SELECT j.tenant INTO v_tenant FROM jobs_0 j
          WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority = v_priority
            AND j.tenant > v_tenant ORDER BY j.tenant LIMIT 1;
          EXIT WHEN NOT FOUND;
          PERFORM 1 FROM jobs_0 j
              WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate
                AND j.priority = v_priority AND j.tenant = v_tenant AND j.due_at <= greatest(p_now, j.updated_at)
                AND j.vocabulary <= p_vocabulary AND j.crashes <= p_crashes
              ORDER BY j.due_at, j.id LIMIT 1 FOR UPDATE SKIP LOCKED;
          IF FOUND THEN v_tenants := v_tenants || v_tenant; END IF;
        END LOOP;
        v_tenant := '';
        WHILE p_after <> '' AND cardinality(v_tenants) < p_limit LOOP
          SELECT j.tenant INTO v_tenant FROM jobs_0 j
          WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority = v_priority
            AND j.tenant > v_tenant AND j.tenant <= p_after ORDER BY j.tenant LIMIT 1;
          EXIT WHEN NOT FOUND;
          PERFORM 1 FROM jobs_0 j
              WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate
                AND j.priority = v_priority AND j.tenant = v_tenant AND j.due_at <= greatest(p_now, j.updated_at)
                AND j.vocabulary <= p_vocabulary AND j.crashes <= p_crashes
              ORDER BY j.due_at, j.id LIMIT 1 FOR UPDATE SKIP LOCKED;
          IF FOUND THEN v_tenants := v_tenants || v_tenant; END IF;
        END LOOP;
        CONTINUE WHEN cardinality(v_tenants) = 0;
        v_share := ceil(p_limit::numeric / cardinality(v_tenants));
        v_turn := 0;
        FOREACH v_tenant IN ARRAY v_tenants LOOP
          RETURN QUERY
            SELECT h.*, row_number() OVER () - 1, v_turn FROM (
              SELECT j."id", j."version", j."vocabulary", j."kind", j."tenant", j."queue", j."priority", j."gate", j."exclusive_key", j."due_at", j."token", j."attempt", j."crashes", j."updated_at" FROM jobs_0 j
              WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate
                AND j.priority = v_priority AND j.tenant = v_tenant AND j.due_at <= greatest(p_now, j.updated_at)
                AND j.vocabulary <= p_vocabulary AND j.crashes <= p_crashes
              ORDER BY j.due_at, j.id LIMIT v_share FOR UPDATE SKIP LOCKED) h;
          v_turn := v_turn + 1;
        END LOOP;
      END LOOP;
    END LOOP;
  END LOOP;
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_free_keys_0() RETURNS SETOF text LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY 
    WITH RECURSIVE waiting(key) AS (
      SELECT min(j.exclusive_key) FROM jobs_0 j WHERE j.blocked = 1
      UNION ALL
      SELECT (SELECT min(j.exclusive_key) FROM jobs_0 j WHERE j.blocked = 1 AND j.exclusive_key > w.key)
      FROM waiting w WHERE w.key IS NOT NULL)
    SELECT w.key FROM waiting w WHERE w.key IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM leases l WHERE l.exclusive_key = w.key AND l.exclusive_key <> '' OFFSET 0);
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_outlook_0(p_queues text[], p_presence text) RETURNS TABLE (
  found boolean, due bigint, lease_end bigint, others bigint, live bigint, clock bigint, box boolean, wakes boolean,
  rebooted boolean, crashes bigint
) LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY SELECT
    EXISTS (SELECT 1 FROM unnest(p_queues) q(name) CROSS JOIN LATERAL (
      SELECT 1 FROM jobs_0 j WHERE j.ready = 1 AND j.queue = q.name LIMIT 1) x),
    (SELECT j.due_at FROM jobs_0 j WHERE j.ready = 0 AND j.blocked = 0 AND j.status IN ('queued', 'waiting')
     ORDER BY j.due_at LIMIT 1),
    (SELECT min(l.lease_until) FROM leases l),
    (SELECT count(*) FROM leases l WHERE l.presence <> '' AND l.presence <> p_presence),
    (SELECT s.generation FROM log_state s WHERE s.id = 1),
    joblog_now(),
    EXISTS (SELECT 1 FROM outbox),
    EXISTS (
    WITH RECURSIVE waiting(key) AS (
      SELECT min(j.exclusive_key) FROM jobs_0 j WHERE j.blocked = 1
      UNION ALL
      SELECT (SELECT min(j.exclusive_key) FROM jobs_0 j WHERE j.blocked = 1 AND j.exclusive_key > w.key)
      FROM waiting w WHERE w.key IS NOT NULL)
    SELECT w.key FROM waiting w WHERE w.key IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM leases l WHERE l.exclusive_key = w.key AND l.exclusive_key <> '' OFFSET 0)),
    false,  -- the clock outlives boots
    (SELECT coalesce(max(x.crashes), 0) FROM unnest(p_queues) q(name) CROSS JOIN LATERAL (
      SELECT j.crashes FROM jobs_0 j WHERE j.ready = 1 AND j.crashes > 0 AND j.queue = q.name
      ORDER BY j.crashes DESC LIMIT 1) x);
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_due_0() RETURNS TABLE (due bigint, clock bigint) LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY SELECT
    (SELECT j.due_at FROM jobs_0 j WHERE j.ready = 0 AND j.blocked = 0 AND j.status IN ('queued', 'waiting')
     ORDER BY j.due_at LIMIT 1),
    joblog_now();
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_append_1(
  p_epoch bigint, p_seen bigint, p_generation bigint, p_wait boolean,
  e_stream uuid[], e_version bigint[], e_topic text[], e_state bytea[],
  e_unit text[],
  h_id uuid[], h_expected bigint[], h_version bigint[], h_updated bigint[], h_done bigint[], h_sequence bigint[],
  h_cursor text[], h_token bigint[], h_renew bigint[],
  p_new json, p_rest jsonb
) RETURNS bigint[] LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now bigint; v_head bigint; v_epoch bigint; v_generation bigint; n int; want int; v_key text;
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  IF NOT p_wait THEN PERFORM set_config('lock_timeout', '10ms', true); END IF;
  -- lock order everywhere: unit keys, job rows (sorted by the caller), leases, the log
  IF e_unit IS NOT NULL THEN  -- unnest reads an array once; a subscript walks to its element each time
    INSERT INTO unit_results (job_id, unit, version, state)
    SELECT e.stream, e.unit, e.version, e.state FROM unnest(e_stream, e_unit, e_version, e_state) e(stream, unit, version, state)
    WHERE e.unit IS NOT NULL;
  END IF;
  IF p_rest IS NOT NULL AND p_rest ? 'evidence' THEN
    IF EXISTS (SELECT 1 FROM jsonb_to_recordset(p_rest->'evidence') x(job_id uuid, n bigint)
               WHERE (SELECT count(*) FROM unit_results u WHERE u.job_id = x.job_id) <> x.n) THEN
      RAISE EXCEPTION 'evidence is missing' USING ERRCODE = 'JL001';
    END IF;
  END IF;
  IF h_id IS NOT NULL THEN
    UPDATE jobs_1 j SET version = h.version, updated_at = h.updated, done = h.done, sequence = h.sequence,
      cursor = h.cursor, unit_attempt = 0, crashes = 0
    FROM unnest(h_id, h_expected, h_version, h_updated, h_done, h_sequence, h_cursor)
      h(id, expected, version, updated, done, sequence, cursor)
    WHERE j.id = h.id AND j.version = h.expected;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n <> cardinality(h_id) THEN PERFORM joblog_no_row(p_generation); END IF;
    v_now := joblog_now();
    SELECT count(*) INTO n FROM unnest(h_id, h_token) h(id, token)
      JOIN leases l ON l.job_id = h.id AND l.token = h.token AND l.epoch = p_epoch AND l.lease_until > v_now;
    IF n <> cardinality(h_id) THEN RAISE EXCEPTION 'leases' USING ERRCODE = 'JL001'; END IF;
    IF h_renew IS NOT NULL THEN
      UPDATE leases l SET lease_until = greatest(l.lease_until, v_now + h.renew) FROM unnest(h_id, h_renew) h(id, renew)
      WHERE l.job_id = h.id AND h.renew > 0;
    END IF;
  END IF;
  IF p_new IS NOT NULL THEN
    INSERT INTO jobs_1 SELECT r.*
    FROM json_populate_recordset(json_populate_record(null::jobs_1, '{"wish": "", "outcome": "", "reason": "", "reason_text": "", "worker": "", "owner": "", "gate": "", "exclusive_key": "", "parent_id": "", "token": 0, "attempt": 0, "unit_attempt": 0, "crashes": 0, "reclaims": 0, "failures": 0, "done": 0, "skipped": 0, "sequence": 0, "blocked": 0, "total": null, "cursor": null, "started_at": null, "last_attempt_at": null, "finished_at": null, "vocabulary": 1, "version": 1, "tags": "[]", "status": "queued"}'), p_new) r;
  END IF;
  IF p_rest IS NOT NULL THEN
    v_now := joblog_now();
    -- The unique key alone would take an event far ahead of its stream; a hot append was made from a replay.
    IF p_rest ? 'after' AND EXISTS (
      SELECT 1 FROM jsonb_to_recordset(p_rest->'after') x(id uuid, version bigint)
      WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.stream_id = x.id AND e.version = x.version)) THEN
      RAISE EXCEPTION 'stream versions' USING ERRCODE = 'JL001';
    END IF;
    IF p_rest ? 'set' THEN
      UPDATE jobs_1 j SET ("version", "vocabulary", "kind", "tenant", "owner", "queue", "priority", "gate", "exclusive_key", "parent_id", "key", "args_digest", "tags", "status", "wish", "outcome", "reason", "reason_text", "due_at", "ready", "blocked", "worker", "token", "attempt", "unit_attempt", "crashes", "reclaims", "failures", "done", "skipped", "total", "sequence", "cursor", "created_at", "updated_at", "started_at", "last_attempt_at", "finished_at") = (SELECT "version", "vocabulary", "kind", "tenant", "owner", "queue", "priority", "gate", "exclusive_key", "parent_id", "key", "args_digest", "tags", "status", "wish", "outcome", "reason", "reason_text", "due_at", "ready", "blocked", "worker", "token", "attempt", "unit_attempt", "crashes", "reclaims", "failures", "done", "skipped", "total", "sequence", "cursor", "created_at", "updated_at", "started_at", "last_attempt_at", "finished_at" FROM jsonb_populate_record(j, x.c))
      FROM jsonb_to_recordset(p_rest->'set') x(id uuid, expected bigint, c jsonb)
      WHERE j.id = x.id AND j.version = x.expected;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'set') THEN PERFORM joblog_no_row(p_generation); END IF;
    END IF;
    IF p_rest ? 'claimed' THEN
      UPDATE jobs_1 j SET (version, updated_at, status, worker, reason, reason_text, ready, blocked, token, attempt, last_attempt_at, started_at) = (x.version, x.updated_at, x.status, x.worker, x.reason, x.reason_text, x.ready, x.blocked, x.token, x.attempt, x.last_attempt_at, coalesce(x.started_at, j.started_at))
      FROM jsonb_to_recordset(p_rest->'claimed') x(id uuid, expected bigint, version bigint, updated_at bigint, status text, worker text, reason text, reason_text text, ready smallint, blocked smallint, token bigint, attempt bigint, last_attempt_at bigint, started_at bigint)
      WHERE j.id = x.id AND j.version = x.expected;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'claimed') THEN PERFORM joblog_no_row(p_generation); END IF;
    END IF;
    IF p_rest ? 'completed' THEN
      UPDATE jobs_1 j SET (version, updated_at, status, worker, reason, reason_text, ready, blocked, wish, outcome, finished_at) = (x.version, x.updated_at, x.status, x.worker, x.reason, x.reason_text, x.ready, x.blocked, x.wish, x.outcome, x.finished_at)
      FROM jsonb_to_recordset(p_rest->'completed') x(id uuid, expected bigint, version bigint, updated_at bigint, status text, worker text, reason text, reason_text text, ready smallint, blocked smallint, wish text, outcome text, finished_at bigint)
      WHERE j.id = x.id AND j.version = x.expected;
      GET DIAGNOSTICS n = ROW_COUNT;
      IF n <> jsonb_array_length(p_rest->'completed') THEN PERFORM joblog_no_row(p_generation); END IF;
    END IF;
    IF p_rest ? 'fence' THEN
      SELECT count(*) INTO n FROM jsonb_to_recordset(p_rest->'fence') x(id uuid, epoch bigint, token bigint)
        JOIN leases l ON l.job_id = x.id AND l.token = x.token AND l.epoch = x.epoch AND l.lease_until > v_now;
      IF n <> jsonb_array_length(p_rest->'fence') THEN RAISE EXCEPTION 'leases' USING ERRCODE = 'JL001'; END IF;
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
          UPDATE jobs_1 SET ready = 1, blocked = 0 WHERE id = (
            SELECT id FROM jobs_1 WHERE exclusive_key = v_key AND blocked = 1 ORDER BY priority, due_at, id LIMIT 1
            FOR UPDATE SKIP LOCKED);
        END IF;
      END LOOP;
      IF n <> want THEN RAISE EXCEPTION 'leases' USING ERRCODE = 'JL001'; END IF;
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
      ON CONFLICT (gate) DO UPDATE SET slots = CASE WHEN excluded.pinned = 0 THEN g.slots ELSE excluded.slots END, spacing = CASE WHEN excluded.pinned = 0 THEN g.spacing ELSE excluded.spacing END, pinned = CASE WHEN excluded.pinned = 0 THEN g.pinned ELSE excluded.pinned END, closed_until = CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) THEN g.closed_until ELSE excluded.closed_until END, closed_by = CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) THEN g.closed_by ELSE excluded.closed_by END, closed_reason = CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) THEN g.closed_reason ELSE excluded.closed_reason END, closed_at = CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) THEN g.closed_at ELSE excluded.closed_at END;
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
      IF n <> jsonb_array_length(p_rest->'tracking') THEN RAISE EXCEPTION 'tracking' USING ERRCODE = 'JL001'; END IF;
    END IF;
  END IF;
  PERFORM set_config('lock_timeout', '0', true);
  PERFORM pg_advisory_xact_lock(7460711, ('events'::regclass::oid::bigint - 2147483648)::int);  -- from here to the commit: one appender at a time, so positions follow the order of commits
  SELECT epoch, generation INTO v_epoch, v_generation FROM log_state WHERE id = 1;
  SELECT coalesce(max(position), 0) INTO v_head FROM events;
  IF v_epoch < p_epoch OR (v_epoch = p_epoch AND v_head < p_seen) THEN
    RAISE EXCEPTION '%:%', v_epoch, v_head USING ERRCODE = 'JL003';
  END IF;
  IF v_epoch <> p_epoch THEN RAISE EXCEPTION '%', v_epoch USING ERRCODE = 'JL004'; END IF;
  IF v_generation <> p_generation THEN RAISE EXCEPTION '%', v_generation USING ERRCODE = 'JL002'; END IF;
  INSERT INTO events (position, stream_id, version, topic, state)
  SELECT v_head + e.n, e.stream, e.version, e.topic, e.state
  FROM unnest(e_stream, e_version, e_topic, e_state) WITH ORDINALITY e(stream, version, topic, state, n);
  RETURN ARRAY[v_head + 1, joblog_now()];
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_claim_1(
  p_queue text, p_kinds text[], p_shut text[], p_limit int, p_vocabulary bigint, p_after text, p_now bigint, p_crashes bigint
) RETURNS TABLE ("id" uuid, "version" bigint, "vocabulary" bigint, "kind" text, "tenant" text, "queue" text, "priority" smallint, "gate" text, "exclusive_key" text, "due_at" bigint, "token" bigint, "attempt" bigint, "crashes" bigint, "updated_at" bigint, round bigint, turn int) LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan
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
      SELECT j.kind INTO v_kind FROM jobs_1 j
      WHERE j.ready = 1 AND j.queue = p_queue AND j.kind > v_kind ORDER BY j.kind LIMIT 1;
      EXIT WHEN NOT FOUND;
      v_kinds := v_kinds || v_kind;
    END LOOP;
  END IF;
  FOREACH v_kind IN ARRAY coalesce(v_kinds, ARRAY[]::text[]) LOOP
    v_gates := ARRAY['']; v_gate := '';
    LOOP
      SELECT j.gate INTO v_gate FROM jobs_1 j
      WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate > v_gate ORDER BY j.gate LIMIT 1;
      EXIT WHEN NOT FOUND;
      IF NOT v_gate = ANY(p_shut) THEN v_gates := v_gates || v_gate; END IF;
    END LOOP;
    FOREACH v_gate IN ARRAY v_gates LOOP
      v_priority := -1;
      LOOP
        SELECT j.priority INTO v_priority FROM jobs_1 j
        WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority > v_priority
        ORDER BY j.priority LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_tenants := ARRAY[]::text[]; v_tenant := p_after;
        WHILE cardinality(v_tenants) < p_limit LOOP
          SELECT j.tenant INTO v_tenant FROM jobs_1 j
          WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority = v_priority
            AND j.tenant > v_tenant ORDER BY j.tenant LIMIT 1;
          EXIT WHEN NOT FOUND;
          PERFORM 1 FROM jobs_1 j
              WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate
                AND j.priority = v_priority AND j.tenant = v_tenant AND j.due_at <= greatest(p_now, j.updated_at)
                AND j.vocabulary <= p_vocabulary AND j.crashes <= p_crashes
              ORDER BY j.due_at, j.id LIMIT 1 FOR UPDATE SKIP LOCKED;
          IF FOUND THEN v_tenants := v_tenants || v_tenant; END IF;
        END LOOP;
        v_tenant := '';
        WHILE p_after <> '' AND cardinality(v_tenants) < p_limit LOOP
          SELECT j.tenant INTO v_tenant FROM jobs_1 j
          WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate AND j.priority = v_priority
            AND j.tenant > v_tenant AND j.tenant <= p_after ORDER BY j.tenant LIMIT 1;
          EXIT WHEN NOT FOUND;
          PERFORM 1 FROM jobs_1 j
              WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate
                AND j.priority = v_priority AND j.tenant = v_tenant AND j.due_at <= greatest(p_now, j.updated_at)
                AND j.vocabulary <= p_vocabulary AND j.crashes <= p_crashes
              ORDER BY j.due_at, j.id LIMIT 1 FOR UPDATE SKIP LOCKED;
          IF FOUND THEN v_tenants := v_tenants || v_tenant; END IF;
        END LOOP;
        CONTINUE WHEN cardinality(v_tenants) = 0;
        v_share := ceil(p_limit::numeric / cardinality(v_tenants));
        v_turn := 0;
        FOREACH v_tenant IN ARRAY v_tenants LOOP
          RETURN QUERY
            SELECT h.*, row_number() OVER () - 1, v_turn FROM (
              SELECT j."id", j."version", j."vocabulary", j."kind", j."tenant", j."queue", j."priority", j."gate", j."exclusive_key", j."due_at", j."token", j."attempt", j."crashes", j."updated_at" FROM jobs_1 j
              WHERE j.ready = 1 AND j.queue = p_queue AND j.kind = v_kind AND j.gate = v_gate
                AND j.priority = v_priority AND j.tenant = v_tenant AND j.due_at <= greatest(p_now, j.updated_at)
                AND j.vocabulary <= p_vocabulary AND j.crashes <= p_crashes
              ORDER BY j.due_at, j.id LIMIT v_share FOR UPDATE SKIP LOCKED) h;
          v_turn := v_turn + 1;
        END LOOP;
      END LOOP;
    END LOOP;
  END LOOP;
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_free_keys_1() RETURNS SETOF text LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY 
    WITH RECURSIVE waiting(key) AS (
      SELECT min(j.exclusive_key) FROM jobs_1 j WHERE j.blocked = 1
      UNION ALL
      SELECT (SELECT min(j.exclusive_key) FROM jobs_1 j WHERE j.blocked = 1 AND j.exclusive_key > w.key)
      FROM waiting w WHERE w.key IS NOT NULL)
    SELECT w.key FROM waiting w WHERE w.key IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM leases l WHERE l.exclusive_key = w.key AND l.exclusive_key <> '' OFFSET 0);
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_outlook_1(p_queues text[], p_presence text) RETURNS TABLE (
  found boolean, due bigint, lease_end bigint, others bigint, live bigint, clock bigint, box boolean, wakes boolean,
  rebooted boolean, crashes bigint
) LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY SELECT
    EXISTS (SELECT 1 FROM unnest(p_queues) q(name) CROSS JOIN LATERAL (
      SELECT 1 FROM jobs_1 j WHERE j.ready = 1 AND j.queue = q.name LIMIT 1) x),
    (SELECT j.due_at FROM jobs_1 j WHERE j.ready = 0 AND j.blocked = 0 AND j.status IN ('queued', 'waiting')
     ORDER BY j.due_at LIMIT 1),
    (SELECT min(l.lease_until) FROM leases l),
    (SELECT count(*) FROM leases l WHERE l.presence <> '' AND l.presence <> p_presence),
    (SELECT s.generation FROM log_state s WHERE s.id = 1),
    joblog_now(),
    EXISTS (SELECT 1 FROM outbox),
    EXISTS (
    WITH RECURSIVE waiting(key) AS (
      SELECT min(j.exclusive_key) FROM jobs_1 j WHERE j.blocked = 1
      UNION ALL
      SELECT (SELECT min(j.exclusive_key) FROM jobs_1 j WHERE j.blocked = 1 AND j.exclusive_key > w.key)
      FROM waiting w WHERE w.key IS NOT NULL)
    SELECT w.key FROM waiting w WHERE w.key IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM leases l WHERE l.exclusive_key = w.key AND l.exclusive_key <> '' OFFSET 0)),
    false,  -- the clock outlives boots
    (SELECT coalesce(max(x.crashes), 0) FROM unnest(p_queues) q(name) CROSS JOIN LATERAL (
      SELECT j.crashes FROM jobs_1 j WHERE j.ready = 1 AND j.crashes > 0 AND j.queue = q.name
      ORDER BY j.crashes DESC LIMIT 1) x);
END $$;
--;
CREATE OR REPLACE FUNCTION joblog_due_1() RETURNS TABLE (due bigint, clock bigint) LANGUAGE plpgsql 
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY SELECT
    (SELECT j.due_at FROM jobs_1 j WHERE j.ready = 0 AND j.blocked = 0 AND j.status IN ('queued', 'waiting')
     ORDER BY j.due_at LIMIT 1),
    joblog_now();
END $$;
