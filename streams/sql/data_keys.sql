-- Data keys of users, each with the user key it is wrapped with; nulls where one of them was destroyed, no row for an unknown one.
SELECT found_tenant, found_user, found_key::text, nonce, wrapped, generation, owner_nonce, owner_wrapped
FROM data_keys_of_users(%(tenant_ids)s::text[], %(user_ids)s::text[], %(key_ids)s::uuid[]);
