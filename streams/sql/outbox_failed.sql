-- A row that failed on its own waits; so does every later row of its user.
UPDATE memory_outbox
SET attempts = attempts + 1, last_error = %(error)s, available_at = now() + make_interval(secs => %(delay_seconds)s)
WHERE outbox_id = %(outbox_id)s;
