-- Everything that proposals of several users can touch.
SELECT found_place, found_state, found_vectors FROM decision_states(%(requests)s::json);
