-- While Postgres is made anew from memory.changes: the next offset to fold, per partition. Workers wait as long as a row is here,
-- since a half-folded truth must not be decided on. It holds no text of anybody and serves every user, as positions do.
CREATE TABLE refolding (
    partition   integer PRIMARY KEY,
    next_offset bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON refolding TO engram_writer;
GRANT SELECT ON refolding TO engram_working, engram_relay, engram_projector, engram_reader, engram_reconcile;
