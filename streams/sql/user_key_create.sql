-- The first or next key of a user; two writers at once agree on the first one's.
INSERT INTO user_keys (tenant_id, user_id, generation, nonce, wrapped)
SELECT %(tenant_id)s, %(user_id)s, coalesce(max(generation), 0) + 1, %(nonce)s, %(wrapped)s
FROM user_keys WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
ON CONFLICT DO NOTHING;
