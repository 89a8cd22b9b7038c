-- The key of a user that is in use: generation and wrapped material.
SELECT generation, nonce, wrapped FROM user_keys
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND destroyed_at IS NULL;
