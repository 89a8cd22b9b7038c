-- What InfluxDB should hold of the events with these keys.
SELECT e.tenant_id, e.user_id, e.session_id, e.sequence, e.occurred_at_ms, e.event_id, e.content_hash
FROM unnest(%(tenant_ids)s::text[], %(user_ids)s::text[], %(session_ids)s::text[], %(sequences)s::integer[])
    AS wanted (tenant_id, user_id, session_id, sequence)
JOIN working_events AS e USING (tenant_id, user_id, session_id, sequence)
