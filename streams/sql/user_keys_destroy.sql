-- Destroy every key of a user; data keys wrapped with them can never be opened again.
UPDATE user_keys SET nonce = NULL, wrapped = NULL, destroyed_at = now()
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND destroyed_at IS NULL;
