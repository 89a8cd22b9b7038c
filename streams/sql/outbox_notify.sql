-- Wakes the relay when the transaction commits.
SELECT pg_notify('engram_outbox', %(shard)s::text);
