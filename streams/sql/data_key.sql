-- One data key with the user key it is wrapped with; nulls where one of them was destroyed.
SELECT data.nonce, data.wrapped, owner.generation, owner.nonce, owner.wrapped
FROM data_keys AS data
JOIN user_keys AS owner USING (tenant_id, user_id, generation)
WHERE data.tenant_id = %(tenant_id)s AND data.user_id = %(user_id)s AND data.key_id = %(key_id)s::uuid;
