-- The oldest transaction that is still writing, and the next one to begin.
SELECT pg_snapshot_xmin(now_seen)::text::bigint, pg_snapshot_xmax(now_seen)::text::bigint
FROM pg_current_snapshot() AS now_seen;
