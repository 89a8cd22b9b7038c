-- Everything that proposals of several users can touch, in one round trip: one user after the other, each in the scope of that
-- user alone, so that the forced policies hold as ever. For each request a JSON text (memories by id, key, group and as
-- neighbours in the chain, their data keys, waiting entries, marks, old versions, an earlier outcome of this proposal, the names
-- of the vectors), and the vectors one after the other in their binary form.
CREATE FUNCTION decision_states(requests json)
RETURNS TABLE (found_place integer, found_state text, found_vectors bytea)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    one record;
    named record;
    wanted_keys text[];
    groups text[];
    points_ms bigint[];
    points_created bigint[];
    points_ordinal integer[];
    points_id uuid[];
    wanted uuid[];
    newest uuid[];
    memories_of json;
    keys_of json;
    pending_of json;
    reviews_of json;
    quarantine_of json;
    marks json;
    old json;
    outcome_of json;
    vector_names json;
BEGIN
    FOR one IN
        SELECT * FROM json_to_recordset(requests) AS asked (
            place integer, tenant_id text, user_id text, proposal_id text, stated_at_ms bigint, now_ms bigint, keys text[],
            link_groups text[], memory_ids uuid[], entry_ids uuid[], whole_user boolean, history boolean, vectors integer,
            chain_ms bigint[], chain_created bigint[], chain_ordinals integer[], chain_ids uuid[]
        )
    LOOP
        PERFORM set_config('engram.tenant_id', one.tenant_id, true), set_config('engram.user_id', one.user_id, true);
        wanted_keys := one.keys;
        groups := one.link_groups;
        points_ms := one.chain_ms;
        points_created := one.chain_created;
        points_ordinal := one.chain_ordinals;
        points_id := one.chain_ids;
        wanted := NULL;
        memories_of := NULL;
        keys_of := NULL;
        pending_of := NULL;
        reviews_of := NULL;
        quarantine_of := NULL;
        old := NULL;
        vector_names := NULL;
        found_vectors := NULL;
        found_place := one.place;

        -- A command names memories and entries: their keys, groups and places count as if it had named those.
        IF one.memory_ids IS NOT NULL THEN
            SELECT array_agg(m.memory_id) AS ids, array_agg(m.dedupe_key) AS keys,
                array_agg(m.link_group) FILTER (WHERE m.link_group <> '') AS link_groups, array_agg(m.chain_ms) AS ms,
                array_agg(m.created_at_ms) AS created, array_agg(m.chain_ordinal) AS ordinals
            INTO named FROM memories AS m
            WHERE m.tenant_id = one.tenant_id AND m.user_id = one.user_id AND m.memory_id = ANY(one.memory_ids);
            wanted := named.ids;
            wanted_keys := wanted_keys || named.keys;
            groups := groups || named.link_groups;
            points_ms := points_ms || named.ms;
            points_created := points_created || named.created;
            points_ordinal := points_ordinal || named.ordinals;
            points_id := points_id || named.ids;
        END IF;
        IF one.entry_ids IS NOT NULL THEN
            SELECT array_agg(e.dedupe_key) AS keys,
                array_agg(coalesce((e.candidate::json ->> 'valid_from_ms')::bigint, one.stated_at_ms)) AS ms,
                array_agg(one.now_ms) AS created, array_agg((e.candidate::json ->> 'ordinal')::integer) AS ordinals,
                array_agg('00000000-0000-0000-0000-000000000000'::uuid) AS ids
            INTO named FROM (
                SELECT p.dedupe_key, p.candidate FROM pending AS p
                WHERE p.tenant_id = one.tenant_id AND p.user_id = one.user_id AND p.entry_id = ANY(one.entry_ids)
                UNION ALL
                SELECT r.dedupe_key, r.candidate FROM review AS r
                WHERE r.tenant_id = one.tenant_id AND r.user_id = one.user_id AND r.entry_id = ANY(one.entry_ids)
            ) AS e;
            wanted_keys := wanted_keys || named.keys;
            points_ms := points_ms || named.ms;
            points_created := points_created || named.created;
            points_ordinal := points_ordinal || named.ordinals;
            points_id := points_id || named.ids;
        END IF;

        IF wanted_keys IS NOT NULL THEN
            SELECT array_agg(m.memory_id) FILTER (WHERE m.status IN ('active', 'tentative', 'review', 'historical')) AS ids,
                array_agg(DISTINCT m.link_group) FILTER (WHERE m.link_group <> '') AS link_groups
            INTO named FROM memories AS m
            WHERE m.tenant_id = one.tenant_id AND m.user_id = one.user_id AND m.dedupe_key = ANY(wanted_keys);
            wanted := wanted || named.ids;
            groups := groups || named.link_groups;
            SELECT json_agg(e) INTO pending_of FROM pending AS e
            WHERE e.tenant_id = one.tenant_id AND e.user_id = one.user_id AND e.state = 'waiting'
              AND e.dedupe_key = ANY(wanted_keys);
            SELECT json_agg(e) INTO reviews_of FROM review AS e
            WHERE e.tenant_id = one.tenant_id AND e.user_id = one.user_id AND e.state = 'waiting'
              AND e.dedupe_key = ANY(wanted_keys);
        END IF;
        IF groups IS NOT NULL THEN
            SELECT wanted || array_agg(m.memory_id) INTO wanted FROM memories AS m
            WHERE m.tenant_id = one.tenant_id AND m.user_id = one.user_id AND m.link_group <> ''
              AND m.link_group = ANY(groups) AND m.status IN ('active', 'tentative');
        END IF;
        IF points_ms IS NOT NULL THEN
            SELECT wanted || array_agg(near.memory_id) INTO wanted
            FROM unnest(points_ms, points_created, points_ordinal, points_id) AS p (ms, created, ordinal, id)
            CROSS JOIN LATERAL (
                (
                    SELECT m.memory_id FROM memories AS m
                    WHERE m.tenant_id = one.tenant_id AND m.user_id = one.user_id AND m.status NOT IN ('deleted', 'erased')
                      AND (one.memory_ids IS NULL OR m.memory_id <> ALL(one.memory_ids))
                      AND (m.chain_ms, m.created_at_ms, m.chain_ordinal, m.memory_id) < (p.ms, p.created, p.ordinal, p.id)
                    ORDER BY m.chain_ms DESC, m.created_at_ms DESC, m.chain_ordinal DESC, m.memory_id DESC LIMIT 2
                )
                UNION ALL
                (
                    SELECT m.memory_id FROM memories AS m
                    WHERE m.tenant_id = one.tenant_id AND m.user_id = one.user_id AND m.status NOT IN ('deleted', 'erased')
                      AND (one.memory_ids IS NULL OR m.memory_id <> ALL(one.memory_ids))
                      AND (m.chain_ms, m.created_at_ms, m.chain_ordinal, m.memory_id) > (p.ms, p.created, p.ordinal, p.id)
                    ORDER BY m.chain_ms, m.created_at_ms, m.chain_ordinal, m.memory_id LIMIT 2
                )
            ) AS near;
        END IF;
        IF one.whole_user THEN
            SELECT wanted || array_agg(m.memory_id) INTO wanted FROM memories AS m
            WHERE m.tenant_id = one.tenant_id AND m.user_id = one.user_id AND m.status NOT IN ('deleted', 'erased');
            SELECT json_agg(e) INTO pending_of FROM pending AS e
            WHERE e.tenant_id = one.tenant_id AND e.user_id = one.user_id AND e.state = 'waiting';
            SELECT json_agg(e) INTO reviews_of FROM review AS e
            WHERE e.tenant_id = one.tenant_id AND e.user_id = one.user_id AND e.state = 'waiting';
        END IF;
        IF one.whole_user OR one.entry_ids IS NOT NULL THEN
            SELECT json_agg(e) INTO quarantine_of FROM quarantine AS e
            WHERE e.tenant_id = one.tenant_id AND e.user_id = one.user_id
              AND (e.entry_id = ANY(one.entry_ids) OR (one.whole_user AND e.state = 'waiting'));
        END IF;
        IF one.history THEN
            SELECT json_agg(h.record) INTO old FROM memory_history AS h
            WHERE h.tenant_id = one.tenant_id AND h.user_id = one.user_id AND h.memory_id = ANY(one.memory_ids)
              AND h.record IS NOT NULL;
        END IF;
        IF wanted IS NOT NULL THEN
            SELECT json_agg(r.record), json_object_agg(r.memory_id, r.key_id) INTO memories_of, keys_of
            FROM memory_records AS r
            WHERE r.tenant_id = one.tenant_id AND r.user_id = one.user_id AND r.memory_id = ANY(wanted);
        END IF;
        IF one.vectors > 0 THEN
            newest := ARRAY(
                SELECT m.memory_id FROM memories AS m
                WHERE m.tenant_id = one.tenant_id AND m.user_id = one.user_id AND m.status = 'active'
                ORDER BY m.created_at_ms DESC, m.memory_id LIMIT one.vectors
            );
            SELECT json_agg(ARRAY[v.memory_id::text, v.revision]), string_agg(vector_send(v.vector), '')
            INTO vector_names, found_vectors
            FROM memory_vectors AS v
            WHERE v.tenant_id = one.tenant_id AND v.user_id = one.user_id AND v.memory_id = ANY(newest);
        END IF;
        SELECT json_object_agg(b.dedupe_key, b.before_ms) INTO marks FROM before_marks AS b
        WHERE b.tenant_id = one.tenant_id AND b.user_id = one.user_id
          AND (b.dedupe_key = '' OR b.dedupe_key = ANY(wanted_keys));
        SELECT json_build_object('outcome', o.outcome, 'reason', o.reason) INTO outcome_of FROM command_outcomes AS o
        WHERE o.tenant_id = one.tenant_id AND o.user_id = one.user_id AND o.proposal_id = one.proposal_id;
        found_state := json_build_object(
            'memories', coalesce(memories_of, '[]'), 'memory_keys', coalesce(keys_of, '{}'),
            'pending', coalesce(pending_of, '[]'), 'reviews', coalesce(reviews_of, '[]'),
            'quarantine', coalesce(quarantine_of, '[]'), 'before', coalesce(marks, '{}'), 'history', coalesce(old, '[]'),
            'vectors', coalesce(vector_names, '[]'), 'outcome', outcome_of
        )::text;
        RETURN NEXT;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION decision_states(json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION decision_states(json) TO engram_writer;
