-- Whether Postgres is being made anew from the log.
SELECT partition FROM refolding LIMIT 1;
