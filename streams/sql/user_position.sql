-- How far the inputs of a user are remembered.
SELECT origin_partition, origin_offset FROM user_positions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s;
