-- The scope of a transaction: every policy below asks these two functions. A pooled connection answers with an empty
-- string from its second transaction on, which would silently mean "no rows"; so a missing or empty setting raises.
CREATE FUNCTION engram_tenant() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    scope text := current_setting('engram.tenant_id', true);
BEGIN
    IF scope IS NULL OR scope = '' THEN
        RAISE EXCEPTION 'engram.tenant_id is not set in this transaction' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN scope;
END
$$;

CREATE FUNCTION engram_user() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    scope text := current_setting('engram.user_id', true);
BEGIN
    IF scope IS NULL OR scope = '' THEN
        RAISE EXCEPTION 'engram.user_id is not set in this transaction' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN scope;
END
$$;

-- Times are milliseconds since the epoch, as in the records: what is read back is exactly what was decided.

CREATE TABLE memories (
    tenant_id            text NOT NULL,
    user_id              text NOT NULL,
    memory_id            uuid NOT NULL,
    org_unit             text NOT NULL,
    subject              text NOT NULL,
    category             text NOT NULL,
    type                 text NOT NULL,
    entity_type          text NOT NULL,
    entity_id            text NOT NULL,
    attribute            text NOT NULL,
    dedupe_key           text NOT NULL,
    value                jsonb NOT NULL,
    content              text NOT NULL,
    language             text NOT NULL,
    importance           double precision NOT NULL,
    confidence           double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    source               text NOT NULL,
    status               text NOT NULL CHECK (status IN ('active', 'tentative', 'review', 'superseded', 'historical',
                                                         'expired', 'deleted', 'erased')),
    version              integer NOT NULL CHECK (version >= 1),
    body_version         integer NOT NULL CHECK (body_version >= 1),
    content_hash         text NOT NULL,
    stated_at_ms         bigint NOT NULL,
    created_at_ms        bigint NOT NULL,
    updated_at_ms        bigint NOT NULL,
    intent               text NOT NULL,
    locked               boolean NOT NULL,
    tags                 text[] NOT NULL,
    slot_hint            text NOT NULL,
    scope                text NOT NULL,
    link_group           text NOT NULL,
    needs_check          text NOT NULL,
    event_time_ms        bigint,
    valid_from_ms        bigint,
    valid_to_ms          bigint,
    expires_at_ms        bigint,
    last_confirmed_at_ms bigint,
    superseded_at_ms     bigint,
    deleted_at_ms        bigint,
    confirmations        integer NOT NULL,
    supersedes           uuid[] NOT NULL,
    source_event_ids     text[] NOT NULL,
    source_message_ids   text[] NOT NULL,
    source_memory_ids    uuid[] NOT NULL,
    provenance           jsonb NOT NULL,
    relations            jsonb NOT NULL,
    -- Place in the user's FOLLOWS chain: (chain_ms, created_at_ms, chain_ordinal, memory_id), fixed at creation.
    chain_ms             bigint GENERATED ALWAYS AS (coalesce(valid_from_ms, stated_at_ms)) STORED,
    chain_ordinal        integer GENERATED ALWAYS AS (coalesce((provenance ->> 'ordinal')::integer, 0)) STORED,
    PRIMARY KEY (tenant_id, user_id, memory_id)
);
CREATE INDEX memories_by_key ON memories (tenant_id, user_id, dedupe_key);
CREATE INDEX memories_by_link_group ON memories (tenant_id, user_id, link_group) WHERE link_group <> '';
CREATE INDEX memories_in_chain ON memories (tenant_id, user_id, chain_ms, created_at_ms, chain_ordinal, memory_id)
    WHERE status NOT IN ('deleted', 'erased');
CREATE INDEX memories_newest_live ON memories (tenant_id, user_id, created_at_ms DESC, memory_id) WHERE status = 'active';
CREATE INDEX memories_by_event_time ON memories (tenant_id, user_id, event_time_ms) WHERE status = 'active';
CREATE INDEX memories_by_entity ON memories (tenant_id, user_id, entity_type, entity_id);
-- The reconciler pages through all users in the order of ids, as the stores do.
CREATE INDEX memories_in_id_order ON memories (memory_id);
CREATE INDEX memories_by_update ON memories (updated_at_ms);

CREATE TABLE memory_history (
    tenant_id      text NOT NULL,
    user_id        text NOT NULL,
    memory_id      uuid NOT NULL,
    version        integer NOT NULL,
    event_id       uuid NOT NULL,
    op             text NOT NULL,
    status         text NOT NULL,
    content_hash   text NOT NULL,
    reason         text NOT NULL,
    actor          text NOT NULL,
    proposal_id    text NOT NULL,
    source_event_id text NOT NULL,
    occurred_at_ms bigint NOT NULL,
    -- The whole record of that version as JSON; null once the memory is erased.
    record         json,
    PRIMARY KEY (tenant_id, user_id, memory_id, version),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories ON DELETE CASCADE
);

CREATE TABLE memory_edges (
    tenant_id   text NOT NULL,
    user_id     text NOT NULL,
    memory_id   uuid NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('FOLLOWS', 'SIMILAR_TO', 'CAUSES', 'BELONGS_TO', 'DELEGATED_ACCESS')),
    target_kind text NOT NULL CHECK (target_kind IN ('memory', 'entity')),
    target_id   text NOT NULL,
    weight      double precision NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id, kind, target_kind, target_id),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX memory_edges_by_target ON memory_edges (tenant_id, user_id, target_kind, target_id);

CREATE TABLE entities (
    tenant_id   text NOT NULL,
    user_id     text NOT NULL,
    entity_type text NOT NULL,
    entity_id   text NOT NULL,
    names       text[] NOT NULL DEFAULT '{}',
    aliases     text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, user_id, entity_type, entity_id)
);

CREATE TABLE relations (
    tenant_id    text NOT NULL,
    user_id      text NOT NULL,
    memory_id    uuid NOT NULL,
    subject_type text NOT NULL,
    subject_id   text NOT NULL,
    predicate    text NOT NULL,
    object_type  text NOT NULL,
    object_id    text NOT NULL,
    weight       double precision NOT NULL,
    live         boolean NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id, subject_type, subject_id, predicate, object_type, object_id),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX relations_by_subject ON relations (tenant_id, user_id, subject_type, subject_id);
CREATE INDEX relations_by_object ON relations (tenant_id, user_id, object_type, object_id);

CREATE TABLE memory_vectors (
    tenant_id text NOT NULL,
    user_id   text NOT NULL,
    memory_id uuid NOT NULL,
    revision  text NOT NULL,
    digest    text NOT NULL,
    vector    vector NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id, revision),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
-- In the row unless it does not fit a page: an exact search over 10,000 vectors takes 33 ms when they go to TOAST.
ALTER TABLE memory_vectors ALTER COLUMN vector SET STORAGE MAIN;

CREATE TABLE memory_access (
    tenant_id         text NOT NULL,
    user_id           text NOT NULL,
    memory_id         uuid NOT NULL,
    last_access_at_ms bigint NOT NULL,
    access_count      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, user_id, memory_id),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories ON DELETE CASCADE
);

CREATE TABLE pending (
    tenant_id       text NOT NULL,
    user_id         text NOT NULL,
    entry_id        uuid NOT NULL,
    dedupe_key      text NOT NULL,
    content         text NOT NULL,
    confidence      double precision NOT NULL,
    candidate       text NOT NULL,
    reason          text NOT NULL,
    source_event_id text NOT NULL,
    created_at_ms   bigint NOT NULL,
    expires_at_ms   bigint NOT NULL,
    state           text NOT NULL,
    PRIMARY KEY (tenant_id, user_id, entry_id)
);
CREATE INDEX pending_waiting ON pending (tenant_id, user_id, dedupe_key) WHERE state = 'waiting';

CREATE TABLE review (
    tenant_id       text NOT NULL,
    user_id         text NOT NULL,
    entry_id        uuid NOT NULL,
    memory_id       uuid NOT NULL,
    other_memory_id uuid,
    dedupe_key      text NOT NULL,
    content         text NOT NULL,
    candidate       text NOT NULL,
    reason          text NOT NULL,
    source_event_id text NOT NULL,
    created_at_ms   bigint NOT NULL,
    state           text NOT NULL,
    PRIMARY KEY (tenant_id, user_id, entry_id)
);
CREATE INDEX review_waiting ON review (tenant_id, user_id, dedupe_key) WHERE state = 'waiting';

CREATE TABLE quarantine (
    tenant_id       text NOT NULL,
    user_id         text NOT NULL,
    entry_id        uuid NOT NULL,
    gate            text NOT NULL,
    rule_id         text NOT NULL,
    gate_version    text NOT NULL,
    outcome         text NOT NULL,
    side            text NOT NULL,
    excerpt         text NOT NULL,
    source_event_id text NOT NULL,
    created_at_ms   bigint NOT NULL,
    state           text NOT NULL,
    PRIMARY KEY (tenant_id, user_id, entry_id)
);

CREATE TABLE before_marks (
    tenant_id  text NOT NULL,
    user_id    text NOT NULL,
    -- Empty for the whole user.
    dedupe_key text NOT NULL,
    before_ms  bigint NOT NULL,
    PRIMARY KEY (tenant_id, user_id, dedupe_key)
);

-- One row per proposal that was handled, whatever it led to: who asked waits for it, and a proposal that arrives twice
-- at two offsets is known by it.
CREATE TABLE command_outcomes (
    tenant_id     text NOT NULL,
    user_id       text NOT NULL,
    proposal_id   text NOT NULL,
    event_id      text NOT NULL,
    kind          text NOT NULL,
    outcome       text NOT NULL,
    reason        text NOT NULL,
    memory_ids    uuid[] NOT NULL,
    refused       integer NOT NULL,
    decided_at_ms bigint NOT NULL,
    PRIMARY KEY (tenant_id, user_id, proposal_id)
);
CREATE INDEX command_outcomes_by_event ON command_outcomes (tenant_id, user_id, event_id) WHERE event_id <> '';

CREATE TABLE user_positions (
    tenant_id        text NOT NULL,
    user_id          text NOT NULL,
    origin_partition integer NOT NULL,
    origin_offset    bigint NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
);

CREATE TABLE delegations (
    tenant_id     text NOT NULL,
    user_id       text NOT NULL,
    guardian_id   text NOT NULL,
    scope         text NOT NULL,
    valid_from_ms bigint NOT NULL,
    valid_to_ms   bigint,
    revoked_at_ms bigint,
    PRIMARY KEY (tenant_id, user_id, guardian_id, scope)
);

CREATE TABLE chat_history (
    tenant_id         text NOT NULL,
    user_id           text NOT NULL,
    event_id          text NOT NULL,
    kind              text NOT NULL,
    session_id        text NOT NULL,
    conversation_id   text NOT NULL,
    channel           text NOT NULL,
    user_message      text NOT NULL,
    assistant_message text,
    stated_at_ms      bigint NOT NULL,
    received_at_ms    bigint NOT NULL,
    origin_partition  integer NOT NULL,
    origin_offset     bigint NOT NULL,
    detail            jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, user_id, event_id)
);
CREATE INDEX chat_history_newest ON chat_history (tenant_id, user_id, origin_offset DESC);
CREATE INDEX chat_history_of_session ON chat_history (tenant_id, user_id, session_id, origin_offset DESC);

CREATE TABLE working_memory (
    tenant_id      text NOT NULL,
    user_id        text NOT NULL,
    session_id     text NOT NULL,
    state          text NOT NULL,
    sequence       integer NOT NULL,
    last_event_ids text[] NOT NULL,
    fields         jsonb NOT NULL DEFAULT '{}',
    updated_at_ms  bigint NOT NULL,
    PRIMARY KEY (tenant_id, user_id, session_id)
);

CREATE TABLE working_events (
    tenant_id        text NOT NULL,
    user_id          text NOT NULL,
    session_id       text NOT NULL,
    sequence         integer NOT NULL,
    event_id         text NOT NULL,
    event_type       text NOT NULL,
    state_from       text NOT NULL,
    state_to         text NOT NULL,
    occurred_at_ms   bigint NOT NULL,
    content_hash     text NOT NULL,
    origin_partition integer NOT NULL,
    origin_offset    bigint NOT NULL,
    key_id           text,
    nonce            bytea,
    ciphertext       bytea,
    PRIMARY KEY (tenant_id, user_id, session_id, sequence),
    UNIQUE (tenant_id, user_id, event_id)
);
CREATE INDEX working_events_in_id_order ON working_events (event_id);

-- The log's own places: no tenant stands in them.
CREATE TABLE positions (
    role           text NOT NULL CHECK (role IN ('remember', 'working')),
    partition      integer NOT NULL,
    topic_identity text NOT NULL,
    last_offset    bigint NOT NULL,
    PRIMARY KEY (role, partition)
);

CREATE TABLE projections (
    name          text NOT NULL,
    generation    integer NOT NULL CHECK (generation >= 1),
    state         text NOT NULL CHECK (state IN ('building', 'live', 'draining', 'dropped')),
    created_at_ms bigint NOT NULL,
    switched_at_ms bigint,
    detail        jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (name, generation)
);
CREATE UNIQUE INDEX projections_one_live ON projections (name) WHERE state = 'live';
CREATE UNIQUE INDEX projections_one_building ON projections (name) WHERE state = 'building';
