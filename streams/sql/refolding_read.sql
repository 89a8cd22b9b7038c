-- How far each partition of memory.changes is folded, and whether anything was ever decided here.
SELECT (SELECT coalesce(json_object_agg(partition, next_offset), '{}') FROM refolding)::text,
    EXISTS (SELECT FROM positions WHERE last_offset >= 0);
