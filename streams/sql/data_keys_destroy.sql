-- Destroy data keys; their rows stay, so that "erased" and "never existed" are two answers.
UPDATE data_keys SET nonce = NULL, wrapped = NULL, destroyed_at = now()
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND key_id = ANY(%(key_ids)s::uuid[]) AND destroyed_at IS NULL;
