-- One owner per shard, for as long as this session lives. The first number only keeps this family of locks apart.
SELECT shard FROM unnest(%(shards)s::integer[]) AS wanted (shard) WHERE pg_try_advisory_lock(1164865385, shard);
