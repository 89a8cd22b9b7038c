-- What the inputs of several users find, in one round trip: one user after the other, each in the scope of that user alone, so
-- that the forced policies hold as ever. For each request a JSON text: the sessions as they stand and which inputs are known.
CREATE FUNCTION working_sessions(requests json)
RETURNS TABLE (found_place integer, found_sessions text, found_events text[])
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT * FROM json_to_recordset(requests) AS asked (
            place integer, tenant_id text, user_id text, session_ids text[], event_ids text[]
        )
    LOOP
        PERFORM set_config('engram.tenant_id', one.tenant_id, true), set_config('engram.user_id', one.user_id, true);
        found_place := one.place;
        SELECT json_agg(json_build_object(
            'session_id', w.session_id, 'state', w.state, 'sequence', w.sequence, 'last_event_ids', w.last_event_ids,
            'fields', w.fields
        ))::text INTO found_sessions FROM working_memory AS w
        WHERE w.tenant_id = one.tenant_id AND w.user_id = one.user_id AND w.session_id = ANY(one.session_ids);
        SELECT array_agg(h.event_id) INTO found_events FROM chat_history AS h
        WHERE h.tenant_id = one.tenant_id AND h.user_id = one.user_id AND h.event_id = ANY(one.event_ids);
        RETURN NEXT;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION working_sessions(json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION working_sessions(json) TO engram_working;

-- What those inputs led to: the catalogue of the log, the sessions' new states, and each event with its outbox row, so that what is
-- recorded is published.
CREATE FUNCTION working_written(documents json) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT * FROM json_to_recordset(documents) AS given (
            tenant_id text, user_id text, history json, sessions json, events json
        )
    LOOP
        PERFORM set_config('engram.tenant_id', one.tenant_id, true), set_config('engram.user_id', one.user_id, true);
        INSERT INTO chat_history (
            tenant_id, user_id, event_id, kind, session_id, conversation_id, channel, user_message, assistant_message,
            stated_at_ms, received_at_ms, origin_partition, origin_offset, detail
        )
        SELECT one.tenant_id, one.user_id, h.event_id, h.kind, h.session_id, h.conversation_id, h.channel, h.user_message,
            h.assistant_message, h.stated_at_ms, h.received_at_ms, h.origin_partition, h.origin_offset, h.detail
        FROM json_populate_recordset(NULL::chat_history, one.history) AS h;
        INSERT INTO working_memory (
            tenant_id, user_id, session_id, state, sequence, last_event_ids, fields, updated_at_ms
        )
        SELECT one.tenant_id, one.user_id, s.session_id, s.state, s.sequence, s.last_event_ids, s.fields, s.updated_at_ms
        FROM json_populate_recordset(NULL::working_memory, one.sessions) AS s
        ON CONFLICT (tenant_id, user_id, session_id) DO UPDATE
        SET state = excluded.state, sequence = excluded.sequence, last_event_ids = excluded.last_event_ids,
            fields = excluded.fields, updated_at_ms = excluded.updated_at_ms;
        WITH given AS MATERIALIZED (
            SELECT * FROM ROWS FROM (json_to_recordset(one.events) AS (
                session_id text, sequence integer, event_id text, event_type text, state_from text, state_to text,
                occurred_at_ms bigint, content_hash text, origin_partition integer, origin_offset bigint, key_id text,
                nonce text, ciphertext text, payload text
            )) WITH ORDINALITY AS e (
                session_id, sequence, event_id, event_type, state_from, state_to, occurred_at_ms, content_hash,
                origin_partition, origin_offset, key_id, nonce, ciphertext, payload, place
            )
        ), recorded AS (
            INSERT INTO working_events (
                tenant_id, user_id, session_id, sequence, event_id, event_type, state_from, state_to, occurred_at_ms,
                content_hash, origin_partition, origin_offset, key_id, nonce, ciphertext
            )
            SELECT one.tenant_id, one.user_id, g.session_id, g.sequence, g.event_id, g.event_type, g.state_from, g.state_to,
                g.occurred_at_ms, g.content_hash, g.origin_partition, g.origin_offset, g.key_id, decode(g.nonce, 'base64'),
                decode(g.ciphertext, 'base64')
            FROM given AS g
        )
        INSERT INTO memory_outbox (
            event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target, payload
        )
        SELECT g.event_id::uuid, g.event_id, one.tenant_id, one.user_id, g.origin_partition, g.sequence, g.event_type,
            'working', decode(g.payload, 'base64')
        FROM given AS g ORDER BY g.place;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION working_written(json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION working_written(json) TO engram_working;
