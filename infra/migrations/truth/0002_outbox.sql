-- What is still to be published. Order of commit per user is the order of outbox_id: all rows of a user come from one
-- writer per target, which holds its position row until it commits.
CREATE TABLE memory_outbox (
    outbox_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id          uuid NOT NULL,
    aggregate_id      text NOT NULL,
    tenant_id         text NOT NULL,
    user_id           text NOT NULL,
    shard             integer NOT NULL,
    aggregate_version integer NOT NULL,
    event_type        text NOT NULL,
    target            text NOT NULL CHECK (target IN ('memory', 'working')),
    repair_header     json,
    repair_dedupe_key text,
    -- Null for a repair: the relay reads the row it is about.
    payload           bytea,
    attempts          integer NOT NULL DEFAULT 0,
    available_at      timestamptz NOT NULL DEFAULT now(),
    last_error        text NOT NULL DEFAULT '',
    created_at        timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX memory_outbox_one_repair ON memory_outbox (tenant_id, repair_dedupe_key)
    WHERE repair_dedupe_key IS NOT NULL;
CREATE INDEX memory_outbox_delayed ON memory_outbox (outbox_id) WHERE attempts > 0;
-- The two looks of the reconciler ask which rows of an id are still on their way.
CREATE INDEX memory_outbox_by_aggregate ON memory_outbox (tenant_id, aggregate_id);
-- Rows live for milliseconds: vacuum by number, not by share, and keep what never changes out of TOAST's way.
ALTER TABLE memory_outbox SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE memory_outbox ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Rows that failed on their own too often. They hold back their user until an operator requeues them.
CREATE TABLE outbox_dead (
    outbox_id         bigint PRIMARY KEY,
    event_id          uuid NOT NULL,
    aggregate_id      text NOT NULL,
    tenant_id         text NOT NULL,
    user_id           text NOT NULL,
    shard             integer NOT NULL,
    aggregate_version integer NOT NULL,
    event_type        text NOT NULL,
    target            text NOT NULL,
    repair_header     json,
    repair_dedupe_key text,
    payload           bytea,
    attempts          integer NOT NULL,
    last_error        text NOT NULL,
    created_at        timestamptz NOT NULL,
    died_at           timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_dead_by_user ON outbox_dead (tenant_id, user_id);
