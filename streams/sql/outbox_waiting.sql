-- How much is still to be published, and how many rows wait for an operator.
SELECT (SELECT count(*) FROM memory_outbox), (SELECT count(*) FROM outbox_dead)
