-- Events that a projector refused because the store shows another content under the same version. They hold no text: ids,
-- versions and hashes say what to look at. Written by projectors, read by operators.
CREATE TABLE projection_conflicts (
    store          text NOT NULL,
    generation     integer NOT NULL CHECK (generation >= 1),
    tenant_id      text NOT NULL,
    user_id        text NOT NULL,
    aggregate_id   text NOT NULL,
    version        bigint NOT NULL,
    event_hash     text NOT NULL,
    stored_version bigint NOT NULL,
    stored_hash    text NOT NULL,
    times          bigint NOT NULL DEFAULT 1,
    first_at_ms    bigint NOT NULL,
    last_at_ms     bigint NOT NULL,
    PRIMARY KEY (store, generation, tenant_id, user_id, aggregate_id, version, event_hash)
);

-- Like projections, it serves every user, so no policy stands on it: a projector works for all of them, and holds no text.
GRANT SELECT, INSERT, UPDATE ON projection_conflicts TO engram_projector;
GRANT SELECT ON projection_conflicts TO engram_reader, engram_reconcile;
