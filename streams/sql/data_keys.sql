-- Data keys of a user, each with the user key it is wrapped with; nulls where one of them was destroyed, no row for an unknown one.
SELECT found_key, nonce, wrapped, generation, owner_nonce, owner_wrapped
FROM data_keys_of(%(tenant_id)s, %(user_id)s, %(key_ids)s::uuid[]);
