-- The earliest row that was tried before and may be tried again.
SELECT min(outbox_id) FROM memory_outbox WHERE attempts > 0 AND available_at <= now();
