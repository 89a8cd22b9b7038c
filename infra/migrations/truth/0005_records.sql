-- The data key that seals a record's changes in the log: one per memory and one per entry of a queue. Not part of the
-- record; a rebuild finds it again in what it opens. Null once the record is erased.
ALTER TABLE memories ADD COLUMN key_id uuid;
ALTER TABLE pending ADD COLUMN key_id uuid;
ALTER TABLE review ADD COLUMN key_id uuid;
ALTER TABLE quarantine ADD COLUMN key_id uuid;

-- A memory as one JSON record, with its outgoing edges: the shape of the class Memory. The view runs with the rights of
-- whoever asks, so row-level security holds.
CREATE VIEW memory_records WITH (security_invoker = true) AS
SELECT
    m.tenant_id, m.user_id, m.memory_id, m.dedupe_key, m.link_group, m.category, m.status, m.version, m.content_hash, m.key_id,
    m.created_at_ms, m.updated_at_ms,
    json_build_object(
        'memory_id', m.memory_id, 'tenant_id', m.tenant_id, 'user_id', m.user_id, 'org_unit', m.org_unit,
        'subject', m.subject, 'category', m.category, 'type', m.type, 'entity_type', m.entity_type,
        'entity_id', m.entity_id, 'attribute', m.attribute, 'dedupe_key', m.dedupe_key, 'value', m.value::text,
        'content', m.content, 'language', m.language, 'importance', m.importance, 'confidence', m.confidence,
        'source', m.source, 'status', m.status, 'version', m.version, 'body_version', m.body_version,
        'content_hash', m.content_hash, 'stated_at_ms', m.stated_at_ms, 'created_at_ms', m.created_at_ms,
        'updated_at_ms', m.updated_at_ms, 'intent', m.intent, 'locked', m.locked, 'tags', m.tags,
        'slot_hint', m.slot_hint, 'scope', m.scope, 'link_group', m.link_group, 'needs_check', m.needs_check,
        'event_time_ms', m.event_time_ms, 'valid_from_ms', m.valid_from_ms, 'valid_to_ms', m.valid_to_ms,
        'expires_at_ms', m.expires_at_ms, 'last_confirmed_at_ms', m.last_confirmed_at_ms,
        'superseded_at_ms', m.superseded_at_ms, 'deleted_at_ms', m.deleted_at_ms, 'confirmations', m.confirmations,
        'supersedes', m.supersedes, 'source_event_ids', m.source_event_ids,
        'source_message_ids', m.source_message_ids, 'source_memory_ids', m.source_memory_ids,
        'provenance', m.provenance, 'relations', m.relations,
        'edges', coalesce((
            SELECT json_agg(
                json_build_object('kind', e.kind, 'target_kind', e.target_kind, 'target_id', e.target_id, 'weight', e.weight)
                ORDER BY e.kind COLLATE "C", e.target_kind COLLATE "C", e.target_id COLLATE "C"
            )
            FROM memory_edges AS e
            WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id AND e.memory_id = m.memory_id
        ), '[]'::json)
    ) AS record
FROM memories AS m;
GRANT SELECT ON memory_records TO engram_writer, engram_reader, engram_relay, engram_reconcile;

-- A "before" change counts by the time of the click, which needs 64 bits.
ALTER TABLE memory_outbox ALTER COLUMN aggregate_version TYPE bigint;
ALTER TABLE outbox_dead ALTER COLUMN aggregate_version TYPE bigint;
-- Empty where no memory is kept beside: the shape of the record.
ALTER TABLE review ALTER COLUMN other_memory_id TYPE text USING coalesce(other_memory_id::text, '');
ALTER TABLE review ALTER COLUMN other_memory_id SET DEFAULT '';
ALTER TABLE review ALTER COLUMN other_memory_id SET NOT NULL;
