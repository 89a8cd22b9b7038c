-- Many data keys at once, only while the user key they are wrapped with is alive; its row is locked against destruction.
WITH alive AS MATERIALIZED (
    SELECT generation FROM user_keys
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND generation = %(generation)s AND destroyed_at IS NULL
    FOR SHARE
)
INSERT INTO data_keys (tenant_id, user_id, key_id, generation, nonce, wrapped)
SELECT %(tenant_id)s, %(user_id)s, made.key_id, alive.generation, made.nonce, made.wrapped
FROM alive, unnest(%(key_ids)s::uuid[], %(nonces)s::bytea[], %(wrapped)s::bytea[]) AS made (key_id, nonce, wrapped);
