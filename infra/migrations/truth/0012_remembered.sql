-- Everything that proposals of several users led to, in one round trip: one proposal after the other, each in the scope of its
-- user alone, so that the forced policies hold as ever. ``documents`` is a JSON list with an object for each proposal. The result
-- counts the memories that were not exactly one version older than their change: they were left alone, and the caller rolls back.
CREATE FUNCTION remembered(documents json) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    one record;
    written integer;
    missed integer := 0;
    left_types text[];
    left_ids text[];
BEGIN
    FOR one IN
        SELECT * FROM json_to_recordset(documents) AS given (
            tenant_id text, user_id text, shard integer, memories json, history json, edges_of uuid[], edges json,
            relations_of uuid[], relations json, prune boolean, vectors_of uuid[], vectors json, pending json, review json,
            quarantine json, marks json, outcome json, outbox json, origin_partition integer, origin_offset bigint
        )
    LOOP
        PERFORM set_config('engram.tenant_id', one.tenant_id, true), set_config('engram.user_id', one.user_id, true);
        IF one.memories IS NOT NULL THEN
            INSERT INTO memories AS known (
                tenant_id, user_id, memory_id, org_unit, subject, category, type, entity_type, entity_id, attribute, dedupe_key,
                value, content, language, importance, confidence, source, status, version, body_version, content_hash,
                stated_at_ms, created_at_ms, updated_at_ms, intent, locked, tags, slot_hint, scope, link_group, needs_check,
                event_time_ms, valid_from_ms, valid_to_ms, expires_at_ms, last_confirmed_at_ms, superseded_at_ms, deleted_at_ms,
                confirmations, supersedes, source_event_ids, source_message_ids, source_memory_ids, provenance, relations, key_id
            )
            SELECT
                given.tenant_id, given.user_id, given.memory_id, given.org_unit, given.subject, given.category, given.type,
                given.entity_type, given.entity_id, given.attribute, given.dedupe_key,
                -- The JSON value null is a value; the populating function makes it an absent one.
                coalesce(given.value, 'null'::jsonb),
                given.content, given.language, given.importance, given.confidence, given.source, given.status, given.version,
                given.body_version, given.content_hash, given.stated_at_ms, given.created_at_ms, given.updated_at_ms,
                given.intent, given.locked, given.tags, given.slot_hint, given.scope, given.link_group, given.needs_check,
                given.event_time_ms, given.valid_from_ms, given.valid_to_ms, given.expires_at_ms, given.last_confirmed_at_ms,
                given.superseded_at_ms, given.deleted_at_ms, given.confirmations, given.supersedes, given.source_event_ids,
                given.source_message_ids, given.source_memory_ids, given.provenance, given.relations, given.key_id
            FROM json_populate_recordset(NULL::memories, one.memories) AS given
            ON CONFLICT (tenant_id, user_id, memory_id) DO UPDATE SET
                org_unit = excluded.org_unit, subject = excluded.subject, category = excluded.category, type = excluded.type,
                entity_type = excluded.entity_type, entity_id = excluded.entity_id, attribute = excluded.attribute,
                dedupe_key = excluded.dedupe_key, value = excluded.value, content = excluded.content,
                language = excluded.language, importance = excluded.importance, confidence = excluded.confidence,
                source = excluded.source, status = excluded.status, version = excluded.version,
                body_version = excluded.body_version, content_hash = excluded.content_hash,
                stated_at_ms = excluded.stated_at_ms, created_at_ms = excluded.created_at_ms,
                updated_at_ms = excluded.updated_at_ms, intent = excluded.intent, locked = excluded.locked,
                tags = excluded.tags, slot_hint = excluded.slot_hint, scope = excluded.scope, link_group = excluded.link_group,
                needs_check = excluded.needs_check, event_time_ms = excluded.event_time_ms,
                valid_from_ms = excluded.valid_from_ms, valid_to_ms = excluded.valid_to_ms,
                expires_at_ms = excluded.expires_at_ms, last_confirmed_at_ms = excluded.last_confirmed_at_ms,
                superseded_at_ms = excluded.superseded_at_ms, deleted_at_ms = excluded.deleted_at_ms,
                confirmations = excluded.confirmations, supersedes = excluded.supersedes,
                source_event_ids = excluded.source_event_ids, source_message_ids = excluded.source_message_ids,
                source_memory_ids = excluded.source_memory_ids, provenance = excluded.provenance,
                relations = excluded.relations, key_id = excluded.key_id
            WHERE known.version = excluded.version - 1;
            GET DIAGNOSTICS written = ROW_COUNT;
            missed := missed + json_array_length(one.memories) - written;
            -- Every version is kept whole.
            INSERT INTO memory_history (
                tenant_id, user_id, memory_id, version, event_id, op, status, content_hash, reason, actor, proposal_id,
                source_event_id, occurred_at_ms, record
            )
            SELECT
                given.tenant_id, given.user_id, given.memory_id, given.version, given.event_id, given.op, given.status,
                given.content_hash, given.reason, given.actor, given.proposal_id, given.source_event_id, given.occurred_at_ms,
                given.record
            FROM json_populate_recordset(NULL::memory_history, one.history) AS given;
        END IF;
        IF one.edges_of IS NOT NULL THEN
            -- The outgoing edges of a memory are replaced as a set: what is not in the list goes, the rest is set.
            WITH given AS MATERIALIZED (
                SELECT e.memory_id, e.kind, e.target_kind, e.target_id, e.weight
                FROM json_populate_recordset(NULL::memory_edges, coalesce(one.edges, '[]')) AS e
            ), gone AS (
                DELETE FROM memory_edges AS e
                WHERE e.tenant_id = one.tenant_id AND e.user_id = one.user_id AND e.memory_id = ANY(one.edges_of)
                  AND NOT EXISTS (
                      SELECT FROM given AS g WHERE g.memory_id = e.memory_id AND g.kind = e.kind
                          AND g.target_kind = e.target_kind AND g.target_id = e.target_id
                  )
            )
            INSERT INTO memory_edges (tenant_id, user_id, memory_id, kind, target_kind, target_id, weight)
            SELECT one.tenant_id, one.user_id, g.memory_id, g.kind, g.target_kind, g.target_id, g.weight FROM given AS g
            ON CONFLICT (tenant_id, user_id, memory_id, kind, target_kind, target_id) DO UPDATE SET weight = excluded.weight
            WHERE memory_edges.weight <> excluded.weight;
        END IF;
        IF one.prune THEN
            -- A relation belongs to the memory that states it: it is written anew with that memory, and goes with it.
            WITH gone AS (
                DELETE FROM relations AS r
                WHERE r.tenant_id = one.tenant_id AND r.user_id = one.user_id AND r.memory_id = ANY(one.relations_of)
                RETURNING r.subject_type, r.subject_id, r.object_type, r.object_id
            )
            SELECT array_agg(e.entity_type), array_agg(e.entity_id) INTO left_types, left_ids
            FROM (
                SELECT g.subject_type AS entity_type, g.subject_id AS entity_id FROM gone AS g
                UNION SELECT g.object_type, g.object_id FROM gone AS g
            ) AS e;
        END IF;
        IF one.relations IS NOT NULL THEN
            WITH given AS MATERIALIZED (
                SELECT * FROM json_populate_recordset(NULL::relations, one.relations)
            ), stated AS (
                INSERT INTO relations (
                    tenant_id, user_id, memory_id, subject_type, subject_id, predicate, object_type, object_id, weight, live
                )
                SELECT one.tenant_id, one.user_id, g.memory_id, g.subject_type, g.subject_id, g.predicate, g.object_type,
                    g.object_id, g.weight, g.live
                FROM given AS g
            )
            INSERT INTO entities (tenant_id, user_id, entity_type, entity_id, names)
            SELECT one.tenant_id, one.user_id, e.entity_type, e.entity_id, ARRAY[e.entity_id]
            FROM (
                SELECT g.subject_type AS entity_type, g.subject_id AS entity_id FROM given AS g
                UNION SELECT g.object_type, g.object_id FROM given AS g
            ) AS e
            ON CONFLICT DO NOTHING;
        END IF;
        IF one.prune THEN
            -- An entity without relations goes too; only those that just lost one can be without.
            DELETE FROM entities AS e
            USING unnest(left_types, left_ids) AS had (entity_type, entity_id)
            WHERE e.tenant_id = one.tenant_id AND e.user_id = one.user_id AND e.entity_type = had.entity_type
              AND e.entity_id = had.entity_id
              AND NOT EXISTS (
                  SELECT FROM relations AS r WHERE r.tenant_id = one.tenant_id AND r.user_id = one.user_id
                      AND r.subject_type = had.entity_type AND r.subject_id = had.entity_id
              )
              AND NOT EXISTS (
                  SELECT FROM relations AS r WHERE r.tenant_id = one.tenant_id AND r.user_id = one.user_id
                      AND r.object_type = had.entity_type AND r.object_id = had.entity_id
              );
        END IF;
        IF one.vectors_of IS NOT NULL THEN
            -- Vectors are set as a whole: those of revisions that are not given go.
            DELETE FROM memory_vectors AS v
            WHERE v.tenant_id = one.tenant_id AND v.user_id = one.user_id AND v.memory_id = ANY(one.vectors_of);
        END IF;
        IF one.vectors IS NOT NULL THEN
            INSERT INTO memory_vectors (tenant_id, user_id, memory_id, revision, digest, vector)
            SELECT one.tenant_id, one.user_id, v.memory_id, v.revision, v.digest, v.numbers::vector
            FROM json_to_recordset(one.vectors) AS v (memory_id uuid, revision text, digest text, numbers text);
        END IF;
        -- New entries of the queues, and new states of known ones.
        IF one.pending IS NOT NULL THEN
            INSERT INTO pending (
                tenant_id, user_id, entry_id, dedupe_key, content, confidence, candidate, reason, source_event_id, created_at_ms,
                expires_at_ms, state, key_id
            )
            SELECT one.tenant_id, one.user_id, e.entry_id, e.dedupe_key, e.content, e.confidence, e.candidate, e.reason,
                e.source_event_id, e.created_at_ms, e.expires_at_ms, e.state, e.key_id
            FROM json_populate_recordset(NULL::pending, one.pending) AS e
            ON CONFLICT (tenant_id, user_id, entry_id) DO UPDATE SET state = excluded.state;
        END IF;
        IF one.review IS NOT NULL THEN
            INSERT INTO review (
                tenant_id, user_id, entry_id, memory_id, other_memory_id, dedupe_key, content, candidate, reason,
                source_event_id, created_at_ms, state, key_id
            )
            SELECT one.tenant_id, one.user_id, e.entry_id, e.memory_id, e.other_memory_id, e.dedupe_key, e.content, e.candidate,
                e.reason, e.source_event_id, e.created_at_ms, e.state, e.key_id
            FROM json_populate_recordset(NULL::review, one.review) AS e
            ON CONFLICT (tenant_id, user_id, entry_id) DO UPDATE SET state = excluded.state;
        END IF;
        IF one.quarantine IS NOT NULL THEN
            INSERT INTO quarantine (
                tenant_id, user_id, entry_id, gate, rule_id, gate_version, outcome, side, excerpt, source_event_id,
                created_at_ms, state, key_id
            )
            SELECT one.tenant_id, one.user_id, e.entry_id, e.gate, e.rule_id, e.gate_version, e.outcome, e.side, e.excerpt,
                e.source_event_id, e.created_at_ms, e.state, e.key_id
            FROM json_populate_recordset(NULL::quarantine, one.quarantine) AS e
            ON CONFLICT (tenant_id, user_id, entry_id) DO UPDATE SET state = excluded.state;
        END IF;
        IF one.marks IS NOT NULL THEN
            -- A mark only ever moves forward.
            INSERT INTO before_marks AS known (tenant_id, user_id, dedupe_key, before_ms)
            SELECT one.tenant_id, one.user_id, m.dedupe_key, m.before_ms
            FROM json_populate_recordset(NULL::before_marks, one.marks) AS m
            ON CONFLICT (tenant_id, user_id, dedupe_key) DO UPDATE
            SET before_ms = greatest(known.before_ms, excluded.before_ms);
        END IF;
        IF one.outcome IS NOT NULL THEN
            -- How the proposal ended, for whoever waits, and so that a second copy of it is known.
            INSERT INTO command_outcomes (
                tenant_id, user_id, proposal_id, event_id, kind, outcome, reason, memory_ids, refused, decided_at_ms
            )
            SELECT one.tenant_id, one.user_id, o.proposal_id, o.event_id, o.kind, o.outcome, o.reason, o.memory_ids, o.refused,
                o.decided_at_ms
            FROM json_populate_record(NULL::command_outcomes, one.outcome) AS o
            ON CONFLICT DO NOTHING;
        END IF;
        IF one.outbox IS NOT NULL THEN
            -- The effects of the proposal, to be published in this order.
            INSERT INTO memory_outbox (
                event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target, payload
            )
            SELECT given.event_id, given.aggregate_id, one.tenant_id, one.user_id, one.shard, given.version, given.event_type,
                'memory', decode(given.payload, 'base64')
            FROM ROWS FROM (json_to_recordset(one.outbox) AS (
                event_id uuid, aggregate_id text, version bigint, event_type text, payload text
            )) WITH ORDINALITY AS given (event_id, aggregate_id, version, event_type, payload, place)
            ORDER BY given.place;
        END IF;
        IF one.origin_offset IS NOT NULL THEN
            -- "Remembered up to here" for one user: the highest position of an input whose proposal is decided.
            INSERT INTO user_positions AS known (tenant_id, user_id, origin_partition, origin_offset)
            VALUES (one.tenant_id, one.user_id, one.origin_partition, one.origin_offset)
            ON CONFLICT (tenant_id, user_id) DO UPDATE
            SET origin_partition = excluded.origin_partition, origin_offset = excluded.origin_offset
            WHERE known.origin_offset < excluded.origin_offset;
        END IF;
    END LOOP;
    RETURN missed;
END
$$;
REVOKE ALL ON FUNCTION remembered(json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION remembered(json) TO engram_writer;
