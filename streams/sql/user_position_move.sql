-- "Remembered up to here" for one user: the highest position of an input whose proposal is decided.
INSERT INTO user_positions AS known (tenant_id, user_id, origin_partition, origin_offset)
VALUES (%(tenant_id)s, %(user_id)s, %(partition)s, %(offset)s)
ON CONFLICT (tenant_id, user_id) DO UPDATE
SET origin_partition = excluded.origin_partition, origin_offset = excluded.origin_offset
WHERE known.origin_offset < excluded.origin_offset;
