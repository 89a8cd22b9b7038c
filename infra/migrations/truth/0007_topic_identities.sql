-- Which topics Postgres was filled from and published to: their ids as first seen. With another log below it, offsets,
-- positions and projections mean nothing, so whoever writes or publishes stops when an id differs.
CREATE TABLE topic_identities (
    topic         text PRIMARY KEY,
    identity      text NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT now()
);

-- It holds no text of anybody and serves every user, as positions do.
GRANT SELECT, INSERT ON topic_identities TO engram_writer, engram_working, engram_relay, engram_projector;
GRANT SELECT ON topic_identities TO engram_reader, engram_reconcile;
