-- The sessions of several users as they stand, and which of their inputs are known already.
SELECT found_place, found_sessions, found_events FROM working_sessions(%(requests)s::json);
