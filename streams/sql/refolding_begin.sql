-- Nothing is folded yet.
INSERT INTO refolding (partition, next_offset) SELECT number, 0 FROM unnest(%(partitions)s::integer[]) AS given (number)
ON CONFLICT DO NOTHING;
