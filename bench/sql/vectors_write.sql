-- One vector of one memory.
INSERT INTO memory_vectors (tenant_id, user_id, memory_id, revision, digest, vector)
VALUES (%(tenant_id)s, %(user_id)s, %(memory_id)s, %(revision)s, %(digest)s, %(vector)s);
