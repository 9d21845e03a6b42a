CREATE TABLE archived_streams (
	stream_id BLOB NOT NULL, 
	archive INTEGER NOT NULL, 
	PRIMARY KEY (stream_id)
)
 WITHOUT ROWID
--;
CREATE INDEX archived_streams_archive ON archived_streams (archive)
--;
CREATE TABLE archives (
	event INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	first INTEGER NOT NULL, 
	last INTEGER NOT NULL, 
	events INTEGER NOT NULL, 
	digest TEXT NOT NULL, 
	folder TEXT NOT NULL, 
	PRIMARY KEY (event), 
	CONSTRAINT archives_name UNIQUE (name)
)
--;
CREATE TABLE consumers (
	name TEXT NOT NULL, 
	epoch INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	moved_at INTEGER NOT NULL, 
	PRIMARY KEY (name)
)
 WITHOUT ROWID
--;
CREATE TABLE credentials (
	tenant TEXT NOT NULL, 
	name TEXT NOT NULL, 
	sealed BLOB NOT NULL, 
	updated_at INTEGER NOT NULL, 
	PRIMARY KEY (tenant, name)
)
 WITHOUT ROWID
--;
CREATE TABLE due_jobs (
	generation INTEGER NOT NULL, 
	job_id BLOB NOT NULL, 
	due_at INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	priority SMALLINT NOT NULL, 
	PRIMARY KEY (generation, job_id)
)
 WITHOUT ROWID
--;
CREATE INDEX due_jobs_due ON due_jobs (generation, due_at, job_id)
--;
CREATE INDEX due_jobs_queue ON due_jobs (generation, queue, due_at, job_id)
--;
CREATE TABLE events (
	position INTEGER NOT NULL, 
	stream_id BLOB NOT NULL, 
	version INTEGER NOT NULL, 
	topic TEXT NOT NULL, 
	state BLOB NOT NULL, 
	PRIMARY KEY (position), 
	CONSTRAINT events_stream_version UNIQUE (stream_id, version)
)
--;
CREATE TABLE failed_jobs (
	generation INTEGER NOT NULL, 
	fingerprint TEXT NOT NULL, 
	job_id BLOB NOT NULL, 
	count INTEGER NOT NULL, 
	first_at INTEGER NOT NULL, 
	last_at INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	PRIMARY KEY (generation, fingerprint, job_id)
)
 WITHOUT ROWID
--;
CREATE INDEX failed_jobs_job ON failed_jobs (generation, job_id)
--;
CREATE TABLE failures (
	generation INTEGER NOT NULL, 
	fingerprint TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	category TEXT NOT NULL, 
	text TEXT NOT NULL, 
	count INTEGER NOT NULL, 
	first_at INTEGER NOT NULL, 
	last_at INTEGER NOT NULL, 
	last_job BLOB NOT NULL, 
	last_unit TEXT NOT NULL, 
	last_position INTEGER NOT NULL, 
	PRIMARY KEY (generation, fingerprint)
)
 WITHOUT ROWID
--;
CREATE INDEX failures_newest ON failures (generation, last_position)
--;
CREATE TABLE frozen_lists (
	job_id BLOB NOT NULL, 
	name TEXT NOT NULL, 
	chunk INTEGER NOT NULL, 
	items BLOB NOT NULL, 
	PRIMARY KEY (job_id, name, chunk)
)
 WITHOUT ROWID
--;
CREATE TABLE gate_turns (
	gate TEXT NOT NULL, 
	entry TEXT NOT NULL, 
	job_id BLOB NOT NULL, 
	epoch INTEGER NOT NULL, 
	token INTEGER NOT NULL, 
	at INTEGER NOT NULL, 
	holds SMALLINT NOT NULL, 
	PRIMARY KEY (gate, entry)
)
 WITHOUT ROWID
--;
CREATE INDEX gate_turns_at ON gate_turns (gate, holds, at)
--;
CREATE INDEX gate_turns_job ON gate_turns (gate, job_id)
--;
CREATE TABLE gates (
	gate TEXT NOT NULL, 
	slots INTEGER, 
	spacing INTEGER NOT NULL, 
	pinned SMALLINT NOT NULL, 
	closed_until INTEGER NOT NULL, 
	closed_by TEXT NOT NULL, 
	closed_reason TEXT NOT NULL, 
	closed_at INTEGER NOT NULL, 
	next_at INTEGER NOT NULL, 
	last_at INTEGER NOT NULL, 
	PRIMARY KEY (gate)
)
 WITHOUT ROWID
--;
CREATE TABLE job_counts (
	generation INTEGER NOT NULL, 
	tenant TEXT NOT NULL, 
	status TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	jobs INTEGER NOT NULL, 
	PRIMARY KEY (generation, tenant, status, kind, queue)
)
 WITHOUT ROWID
--;
CREATE TABLE job_versions (
	generation INTEGER NOT NULL, 
	from_position INTEGER NOT NULL, 
	job_id BLOB NOT NULL, 
	to_position INTEGER NOT NULL, 
	from_at INTEGER NOT NULL, 
	to_at INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	worker TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	PRIMARY KEY (generation, from_position, job_id)
)
 WITHOUT ROWID
--;
CREATE INDEX job_versions_job ON job_versions (generation, job_id, from_position)
--;
CREATE INDEX job_versions_time ON job_versions (generation, from_at)
--;
CREATE TABLE jobs_0 (
	id BLOB NOT NULL, 
	version INTEGER NOT NULL, 
	vocabulary INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	priority SMALLINT NOT NULL, 
	gate TEXT NOT NULL, 
	exclusive_key TEXT NOT NULL, 
	parent_id TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	args_digest TEXT NOT NULL, 
	tags TEXT NOT NULL, 
	status TEXT NOT NULL, 
	wish TEXT NOT NULL, 
	outcome TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	reason_text TEXT NOT NULL, 
	due_at INTEGER NOT NULL, 
	ready SMALLINT NOT NULL, 
	blocked SMALLINT NOT NULL, 
	worker TEXT NOT NULL, 
	token INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	unit_attempt INTEGER NOT NULL, 
	crashes INTEGER NOT NULL, 
	reclaims INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	done INTEGER NOT NULL, 
	skipped INTEGER NOT NULL, 
	total INTEGER, 
	sequence INTEGER NOT NULL, 
	cursor TEXT, 
	created_at INTEGER NOT NULL, 
	updated_at INTEGER NOT NULL, 
	started_at INTEGER, 
	last_attempt_at INTEGER, 
	finished_at INTEGER, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID
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
	id BLOB NOT NULL, 
	version INTEGER NOT NULL, 
	vocabulary INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	priority SMALLINT NOT NULL, 
	gate TEXT NOT NULL, 
	exclusive_key TEXT NOT NULL, 
	parent_id TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	args_digest TEXT NOT NULL, 
	tags TEXT NOT NULL, 
	status TEXT NOT NULL, 
	wish TEXT NOT NULL, 
	outcome TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	reason_text TEXT NOT NULL, 
	due_at INTEGER NOT NULL, 
	ready SMALLINT NOT NULL, 
	blocked SMALLINT NOT NULL, 
	worker TEXT NOT NULL, 
	token INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	unit_attempt INTEGER NOT NULL, 
	crashes INTEGER NOT NULL, 
	reclaims INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	done INTEGER NOT NULL, 
	skipped INTEGER NOT NULL, 
	total INTEGER, 
	sequence INTEGER NOT NULL, 
	cursor TEXT, 
	created_at INTEGER NOT NULL, 
	updated_at INTEGER NOT NULL, 
	started_at INTEGER, 
	last_attempt_at INTEGER, 
	finished_at INTEGER, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID
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
	job_id BLOB NOT NULL, 
	epoch INTEGER NOT NULL, 
	token INTEGER NOT NULL, 
	worker TEXT NOT NULL, 
	lease_until INTEGER NOT NULL, 
	boot_id TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	gate TEXT NOT NULL, 
	exclusive_key TEXT NOT NULL, 
	presence TEXT NOT NULL, 
	PRIMARY KEY (job_id)
)
 WITHOUT ROWID
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
	id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	content BLOB NOT NULL, 
	created_at INTEGER NOT NULL, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID
--;
CREATE TABLE log_state (
	id SMALLINT NOT NULL, 
	store_id BLOB NOT NULL, 
	epoch INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	schema_version INTEGER NOT NULL, 
	min_code INTEGER NOT NULL, 
	PRIMARY KEY (id)
)
--;
CREATE TABLE outbox (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	job_id BLOB NOT NULL, 
	spec TEXT NOT NULL
)
--;
CREATE INDEX outbox_job ON outbox (job_id)
--;
CREATE TABLE projections (
	name TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	token INTEGER NOT NULL, 
	alive_until INTEGER NOT NULL, 
	stopped_at INTEGER, 
	reason TEXT NOT NULL, 
	old_until INTEGER, 
	PRIMARY KEY (name)
)
 WITHOUT ROWID
--;
CREATE TABLE queues (
	queue TEXT NOT NULL, 
	paused SMALLINT NOT NULL, 
	slots INTEGER, 
	generation INTEGER NOT NULL, 
	PRIMARY KEY (queue)
)
 WITHOUT ROWID
--;
CREATE TABLE rebuilds (
	name TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	alive_until INTEGER NOT NULL, 
	PRIMARY KEY (name)
)
 WITHOUT ROWID
--;
CREATE TABLE receipts (
	request_id TEXT NOT NULL, 
	action TEXT NOT NULL, 
	target TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	answer TEXT NOT NULL, 
	PRIMARY KEY (request_id)
)
 WITHOUT ROWID
--;
CREATE TABLE recovery_rows (
	generation INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	at INTEGER NOT NULL, 
	recorded_at INTEGER NOT NULL, 
	type TEXT NOT NULL, 
	"database" TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	severity TEXT NOT NULL, 
	source TEXT NOT NULL, 
	done SMALLINT NOT NULL, 
	deleted SMALLINT NOT NULL, 
	actor_id TEXT NOT NULL, 
	actor_name TEXT NOT NULL, 
	ipv4 TEXT NOT NULL, 
	ipv6 TEXT NOT NULL, 
	ids TEXT NOT NULL, 
	titles TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	operation TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	checkpoint INTEGER, 
	attempt INTEGER, 
	next_retry_at INTEGER, 
	reason TEXT NOT NULL, 
	reclaimed SMALLINT NOT NULL, 
	tenant TEXT NOT NULL, 
	needle TEXT NOT NULL, 
	PRIMARY KEY (generation, position)
)
 WITHOUT ROWID
--;
CREATE INDEX recovery_rows_deleted ON recovery_rows (generation, deleted, at, position)
--;
CREATE INDEX recovery_rows_done ON recovery_rows (generation, done, at, position)
--;
CREATE INDEX recovery_rows_newest ON recovery_rows (generation, at, position)
--;
CREATE TABLE security_rows (
	generation INTEGER NOT NULL, 
	id BLOB NOT NULL, 
	category TEXT NOT NULL, 
	action TEXT NOT NULL, 
	source TEXT NOT NULL, 
	severity TEXT NOT NULL, 
	refusal TEXT NOT NULL, 
	count INTEGER NOT NULL, 
	first_at INTEGER NOT NULL, 
	last_at INTEGER NOT NULL, 
	actor TEXT NOT NULL, 
	ipv4 TEXT NOT NULL, 
	ipv6 TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	actors TEXT NOT NULL, 
	addresses TEXT NOT NULL, 
	more_actors INTEGER NOT NULL, 
	more_addresses INTEGER NOT NULL, 
	last_position INTEGER NOT NULL, 
	PRIMARY KEY (generation, id)
)
 WITHOUT ROWID
--;
CREATE INDEX security_rows_newest ON security_rows (generation, last_position)
--;
CREATE TABLE snapshots (
	stream_id BLOB NOT NULL, 
	version INTEGER NOT NULL, 
	topic TEXT NOT NULL, 
	state BLOB NOT NULL, 
	vocabulary INTEGER NOT NULL, 
	PRIMARY KEY (stream_id)
)
 WITHOUT ROWID
--;
CREATE TABLE tokens (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	purpose TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at INTEGER NOT NULL, 
	expires_at INTEGER, 
	used_at INTEGER, 
	revoked_at INTEGER, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID
--;
CREATE TABLE tracking (
	application_name TEXT NOT NULL, 
	notification_id INTEGER NOT NULL, 
	PRIMARY KEY (application_name)
)
--;
CREATE TABLE tree_heads (
	epoch INTEGER NOT NULL, 
	size INTEGER NOT NULL, 
	signed_at INTEGER NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (epoch, size)
)
 WITHOUT ROWID
--;
CREATE TABLE tree_tiles (
	level SMALLINT NOT NULL, 
	number INTEGER NOT NULL, 
	hashes BLOB NOT NULL, 
	PRIMARY KEY (level, number)
)
--;
CREATE TABLE unit_results (
	job_id BLOB NOT NULL, 
	unit TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	state BLOB NOT NULL, 
	PRIMARY KEY (job_id, unit)
)
 WITHOUT ROWID
--;
CREATE TABLE view_state (
	"view" TEXT NOT NULL, 
	generation INTEGER NOT NULL, 
	"key" BLOB NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY ("view", generation, "key")
)
 WITHOUT ROWID
--;
CREATE TABLE webhook_deliveries (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	destination TEXT NOT NULL, 
	event TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	digest TEXT NOT NULL, 
	body BLOB, 
	state TEXT NOT NULL, 
	code TEXT NOT NULL, 
	created_at INTEGER NOT NULL, 
	settled_at INTEGER, 
	CONSTRAINT webhook_deliveries_event UNIQUE (tenant, destination, event)
)
--;
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (tenant, destination, seq) WHERE state = 'pending'
--;
CREATE TABLE webhook_destinations (
	tenant TEXT NOT NULL, 
	name TEXT NOT NULL, 
	url TEXT NOT NULL, 
	secrets TEXT NOT NULL, 
	enabled SMALLINT NOT NULL, 
	reason TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	courier INTEGER NOT NULL, 
	idle SMALLINT NOT NULL, 
	changed_by TEXT NOT NULL, 
	changed_at INTEGER NOT NULL, 
	PRIMARY KEY (tenant, name)
)
 WITHOUT ROWID
--;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END
--;
CREATE TRIGGER events_no_replace BEFORE INSERT ON events WHEN EXISTS (SELECT 1 FROM events WHERE position = NEW.position) OR EXISTS (SELECT 1 FROM events WHERE stream_id = NEW.stream_id AND version = NEW.version) BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END
--;
CREATE TRIGGER events_no_update BEFORE UPDATE ON events WHEN NOT (NEW.position IS OLD.position AND NEW.stream_id IS OLD.stream_id AND NEW.version IS OLD.version AND NEW.topic IS OLD.topic AND typeof(NEW.state) = 'blob' AND length(NEW.state) = 0 AND EXISTS (
  SELECT 1 FROM archived_streams s JOIN archives a ON a.event = s.archive
  WHERE s.stream_id = NEW.stream_id AND NEW.position BETWEEN a.first AND a.last
    AND a.event = (SELECT max(position) FROM events)
    AND a.last <= (SELECT max(h.size) FROM tree_heads h WHERE h.epoch = (SELECT epoch FROM log_state WHERE id = 1))
    AND a.last <= (SELECT t.notification_id FROM tracking t WHERE t.application_name = 'tree'))) BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END
--;
CREATE TRIGGER archives_no_delete BEFORE DELETE ON archives BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END
--;
CREATE TRIGGER archives_no_update BEFORE UPDATE ON archives WHEN NOT (NEW.event IS OLD.event AND NEW.name IS OLD.name AND NEW.first IS OLD.first AND NEW.last IS OLD.last AND NEW.events IS OLD.events AND NEW.digest IS OLD.digest) BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END
--;
CREATE TRIGGER archives_recorded BEFORE INSERT ON archives WHEN EXISTS (SELECT 1 FROM archives WHERE event = NEW.event OR name = NEW.name) OR NOT EXISTS (
  SELECT 1 FROM events e WHERE e.position = NEW.event AND e.position = (SELECT max(position) FROM events)
    AND e.topic = 'joblog.log.archived' AND e.stream_id = x'7e0e9a523c704a928f370f3a1c7b9e55' AND json_extract(CAST(e.state AS TEXT), '$.name') = NEW.name AND json_extract(CAST(e.state AS TEXT), '$.first') = NEW.first AND json_extract(CAST(e.state AS TEXT), '$.last') = NEW.last AND json_extract(CAST(e.state AS TEXT), '$.events') = NEW.events AND json_extract(CAST(e.state AS TEXT), '$.digest') = NEW.digest) BEGIN SELECT RAISE(ABORT, 'no such archive is recorded by the newest event'); END
--;
CREATE TRIGGER archived_streams_no_delete BEFORE DELETE ON archived_streams BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END
--;
CREATE TRIGGER archived_streams_no_update BEFORE UPDATE ON archived_streams BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END
--;
CREATE TRIGGER archived_streams_recorded BEFORE INSERT ON archived_streams WHEN EXISTS (SELECT 1 FROM archived_streams WHERE stream_id = NEW.stream_id) OR EXISTS (SELECT 1 FROM archives WHERE event = NEW.archive) OR NOT EXISTS (
  SELECT 1 FROM events e WHERE e.position = NEW.archive AND e.position = (SELECT max(position) FROM events)
    AND e.topic = 'joblog.log.archived' AND e.stream_id = x'7e0e9a523c704a928f370f3a1c7b9e55') BEGIN SELECT RAISE(ABORT, 'no such archive is recorded by the newest event'); END
