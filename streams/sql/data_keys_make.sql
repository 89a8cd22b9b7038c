-- Many data keys at once, only of users whose key is alive; the answer has these users.
SELECT made_tenant, made_user
FROM data_keys_made(%(tenant_ids)s::text[], %(user_ids)s::text[], %(generations)s::integer[], %(key_ids)s::uuid[],
    %(nonces)s::bytea[], %(wrapped)s::bytea[]);
