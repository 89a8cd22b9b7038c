-- Write new versions of memories from a JSON list; a row that is not exactly one version older is left alone (and missed).
INSERT INTO memories AS known (
    tenant_id, user_id, memory_id, org_unit, subject, category, type, entity_type, entity_id, attribute, dedupe_key, value,
    content, language, importance, confidence, source, status, version, body_version, content_hash, stated_at_ms,
    created_at_ms, updated_at_ms, intent, locked, tags, slot_hint, scope, link_group, needs_check, event_time_ms,
    valid_from_ms, valid_to_ms, expires_at_ms, last_confirmed_at_ms, superseded_at_ms, deleted_at_ms, confirmations,
    supersedes, source_event_ids, source_message_ids, source_memory_ids, provenance, relations, key_id
)
SELECT
    tenant_id, user_id, memory_id, org_unit, subject, category, type, entity_type, entity_id, attribute, dedupe_key,
    -- The JSON value null is a value; the populating function makes it an absent one.
    coalesce(value, 'null'::jsonb),
    content, language, importance, confidence, source, status, version, body_version, content_hash, stated_at_ms,
    created_at_ms, updated_at_ms, intent, locked, tags, slot_hint, scope, link_group, needs_check, event_time_ms,
    valid_from_ms, valid_to_ms, expires_at_ms, last_confirmed_at_ms, superseded_at_ms, deleted_at_ms, confirmations,
    supersedes, source_event_ids, source_message_ids, source_memory_ids, provenance, relations, key_id
FROM json_populate_recordset(NULL::memories, %(memories)s::json)
ON CONFLICT (tenant_id, user_id, memory_id) DO UPDATE SET
    org_unit = excluded.org_unit, subject = excluded.subject, category = excluded.category, type = excluded.type,
    entity_type = excluded.entity_type, entity_id = excluded.entity_id, attribute = excluded.attribute,
    dedupe_key = excluded.dedupe_key, value = excluded.value, content = excluded.content, language = excluded.language,
    importance = excluded.importance, confidence = excluded.confidence, source = excluded.source,
    status = excluded.status, version = excluded.version, body_version = excluded.body_version,
    content_hash = excluded.content_hash, stated_at_ms = excluded.stated_at_ms, created_at_ms = excluded.created_at_ms,
    updated_at_ms = excluded.updated_at_ms, intent = excluded.intent, locked = excluded.locked, tags = excluded.tags,
    slot_hint = excluded.slot_hint, scope = excluded.scope, link_group = excluded.link_group,
    needs_check = excluded.needs_check, event_time_ms = excluded.event_time_ms, valid_from_ms = excluded.valid_from_ms,
    valid_to_ms = excluded.valid_to_ms, expires_at_ms = excluded.expires_at_ms,
    last_confirmed_at_ms = excluded.last_confirmed_at_ms, superseded_at_ms = excluded.superseded_at_ms,
    deleted_at_ms = excluded.deleted_at_ms, confirmations = excluded.confirmations, supersedes = excluded.supersedes,
    source_event_ids = excluded.source_event_ids, source_message_ids = excluded.source_message_ids,
    source_memory_ids = excluded.source_memory_ids, provenance = excluded.provenance, relations = excluded.relations,
    key_id = excluded.key_id
WHERE known.version = excluded.version - 1;
