-- A mark only ever moves forward.
INSERT INTO before_marks AS known (tenant_id, user_id, dedupe_key, before_ms)
SELECT %(tenant_id)s, %(user_id)s, dedupe_key, before_ms
FROM unnest(%(keys)s::text[], %(before_ms)s::bigint[]) AS given (dedupe_key, before_ms)
ON CONFLICT (tenant_id, user_id, dedupe_key) DO UPDATE SET before_ms = greatest(known.before_ms, excluded.before_ms);
