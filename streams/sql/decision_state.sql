-- Everything one proposal can touch, in one row of JSON: memories by id, key, group and as neighbours in the chain,
-- waiting entries, marks, old versions, and whether this proposal was decided before.
WITH named_entries AS (
    SELECT entry_id, dedupe_key, candidate FROM pending
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND entry_id = ANY(%(entry_ids)s::uuid[])
    UNION ALL
    SELECT entry_id, dedupe_key, candidate FROM review
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND entry_id = ANY(%(entry_ids)s::uuid[])
), named AS MATERIALIZED (
    SELECT memory_id, dedupe_key, link_group, chain_ms, created_at_ms, chain_ordinal FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::uuid[])
), keys AS MATERIALIZED (
    SELECT unnest(%(keys)s::text[]) AS dedupe_key
    UNION SELECT dedupe_key FROM named
    UNION SELECT dedupe_key FROM named_entries
), link_groups AS MATERIALIZED (
    SELECT unnest(%(link_groups)s::text[]) AS link_group
    UNION SELECT link_group FROM named WHERE link_group <> ''
    UNION SELECT m.link_group FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.link_group <> ''
      AND m.dedupe_key = ANY(SELECT dedupe_key FROM keys)
), points AS (
    SELECT chain_ms, created_at_ms, chain_ordinal, memory_id
    FROM unnest(%(chain_ms)s::bigint[], %(chain_created)s::bigint[], %(chain_ordinals)s::integer[], %(chain_ids)s::uuid[])
        AS given (chain_ms, created_at_ms, chain_ordinal, memory_id)
    UNION ALL
    SELECT chain_ms, created_at_ms, chain_ordinal, memory_id FROM named
    UNION ALL
    SELECT coalesce((candidate::json ->> 'valid_from_ms')::bigint, %(stated_at_ms)s), %(now_ms)s,
        (candidate::json ->> 'ordinal')::integer, '00000000-0000-0000-0000-000000000000'
    FROM named_entries
), wanted AS (
    SELECT memory_id FROM named
    UNION
    SELECT memory_id FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND dedupe_key = ANY(SELECT dedupe_key FROM keys)
      AND status IN ('active', 'tentative', 'review', 'historical')
    UNION
    SELECT memory_id FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND link_group <> ''
      AND link_group = ANY(SELECT link_group FROM link_groups) AND status IN ('active', 'tentative')
    UNION
    SELECT memory_id FROM memories
    WHERE %(whole_user)s AND tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status NOT IN ('deleted', 'erased')
    UNION
    SELECT before.memory_id FROM points AS p CROSS JOIN LATERAL (
        SELECT m.memory_id FROM memories AS m
        WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.status NOT IN ('deleted', 'erased')
          AND m.memory_id <> ALL(%(memory_ids)s::uuid[])
          AND (m.chain_ms, m.created_at_ms, m.chain_ordinal, m.memory_id)
            < (p.chain_ms, p.created_at_ms, p.chain_ordinal, p.memory_id)
        ORDER BY m.chain_ms DESC, m.created_at_ms DESC, m.chain_ordinal DESC, m.memory_id DESC LIMIT 2
    ) AS before
    UNION
    SELECT after.memory_id FROM points AS p CROSS JOIN LATERAL (
        SELECT m.memory_id FROM memories AS m
        WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.status NOT IN ('deleted', 'erased')
          AND m.memory_id <> ALL(%(memory_ids)s::uuid[])
          AND (m.chain_ms, m.created_at_ms, m.chain_ordinal, m.memory_id)
            > (p.chain_ms, p.created_at_ms, p.chain_ordinal, p.memory_id)
        ORDER BY m.chain_ms, m.created_at_ms, m.chain_ordinal, m.memory_id LIMIT 2
    ) AS after
)
SELECT json_build_object(
    'memories', (
        SELECT coalesce(json_agg(r.record), '[]'::json) FROM memory_records AS r
        WHERE r.tenant_id = %(tenant_id)s AND r.user_id = %(user_id)s AND r.memory_id = ANY(SELECT memory_id FROM wanted)
    ),
    'memory_keys', (
        SELECT coalesce(json_object_agg(m.memory_id, m.key_id), '{}'::json) FROM memories AS m
        WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = ANY(SELECT memory_id FROM wanted)
    ),
    'pending', (
        SELECT coalesce(json_agg(to_json(e)), '[]'::json) FROM pending AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.state = 'waiting'
          AND (e.dedupe_key = ANY(SELECT dedupe_key FROM keys) OR %(whole_user)s)
    ),
    'reviews', (
        SELECT coalesce(json_agg(to_json(e)), '[]'::json) FROM review AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.state = 'waiting'
          AND (e.dedupe_key = ANY(SELECT dedupe_key FROM keys) OR %(whole_user)s)
    ),
    'quarantine', (
        SELECT coalesce(json_agg(to_json(e)), '[]'::json) FROM quarantine AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND (e.entry_id = ANY(%(entry_ids)s::uuid[]) OR (%(whole_user)s AND e.state = 'waiting'))
    ),
    'before', (
        SELECT coalesce(json_object_agg(b.dedupe_key, b.before_ms), '{}'::json) FROM before_marks AS b
        WHERE b.tenant_id = %(tenant_id)s AND b.user_id = %(user_id)s
          AND (b.dedupe_key = '' OR b.dedupe_key = ANY(SELECT dedupe_key FROM keys))
    ),
    'history', (
        SELECT coalesce(json_agg(h.record), '[]'::json) FROM memory_history AS h
        WHERE %(history)s AND h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
          AND h.memory_id = ANY(%(memory_ids)s::uuid[]) AND h.record IS NOT NULL
    ),
    'outcome', (
        SELECT to_json(o) FROM command_outcomes AS o
        WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s AND o.proposal_id = %(proposal_id)s
    )
)::text;
