-- Wakes the relay when the transaction commits.
SELECT pg_notify(%(channel)s, '');
