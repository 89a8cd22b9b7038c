-- The table has a row per conflict of whatever user and no policy, so a role that serves one user may not see it.
REVOKE SELECT ON projection_conflicts FROM engram_reader;
