DROP TABLE webhook_destinations
--;
DROP TABLE webhook_deliveries
--;
DROP TABLE view_state
--;
DROP TABLE unit_results
--;
DROP TABLE tree_tiles
--;
DROP TABLE tree_heads
--;
DROP TABLE tracking
--;
DROP TABLE tokens
--;
DROP TABLE snapshots
--;
DROP TABLE security_rows
--;
DROP TABLE recovery_rows
--;
DROP TABLE receipts
--;
DROP TABLE rebuilds
--;
DROP TABLE queues
--;
DROP TABLE projections
--;
DROP TABLE outbox
--;
DROP TABLE log_state
--;
DROP TABLE letters
--;
DROP TABLE leases
--;
DROP TABLE jobs_1
--;
DROP TABLE jobs_0
--;
DROP TABLE job_versions
--;
DROP TABLE job_counts
--;
DROP TABLE gates
--;
DROP TABLE gate_turns
--;
DROP TABLE frozen_lists
--;
DROP TABLE failures
--;
DROP TABLE failed_jobs
--;
DROP TABLE events
--;
DROP TABLE due_jobs
--;
DROP TABLE credentials
--;
DROP TABLE consumers
--;
DROP TABLE archives
--;
DROP TABLE archived_streams
--;
DROP FUNCTION joblog_append_0
--;
DROP FUNCTION joblog_claim_0
--;
DROP FUNCTION joblog_free_keys_0
--;
DROP FUNCTION joblog_outlook_0
--;
DROP FUNCTION joblog_due_0
--;
DROP FUNCTION joblog_append_1
--;
DROP FUNCTION joblog_claim_1
--;
DROP FUNCTION joblog_free_keys_1
--;
DROP FUNCTION joblog_outlook_1
--;
DROP FUNCTION joblog_due_1
--;
DROP FUNCTION joblog_no_row
--;
DROP FUNCTION joblog_streams
--;
DROP FUNCTION joblog_refuse
--;
DROP FUNCTION joblog_may_empty
--;
DROP FUNCTION joblog_may_move
--;
DROP FUNCTION joblog_is_recorded
--;
DROP FUNCTION joblog_is_recording
--;
DROP FUNCTION joblog_now
