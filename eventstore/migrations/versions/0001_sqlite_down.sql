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
DROP TABLE receipts
--;
DROP TABLE rebuilds
--;
DROP TABLE queues
--;
DROP TABLE outbox
--;
DROP TABLE log_state
--;
DROP TABLE leases
--;
DROP TABLE jobs_1
--;
DROP TABLE jobs_0
--;
DROP TABLE gates
--;
DROP TABLE frozen_lists
--;
DROP TABLE events
--;
DROP TABLE consumers
