-- These begin with what only a look-up of that end knows. When they began with tenant and user, every other look-up inside one user
-- could use them as well as the primary key, and before the tables were first analysed the planner took them: it then read all
-- edges or relations of a user for each memory.
DROP INDEX memory_edges_by_target;
CREATE INDEX memory_edges_by_target ON memory_edges (tenant_id, target_kind, target_id, user_id);
DROP INDEX relations_by_subject;
CREATE INDEX relations_by_subject ON relations (tenant_id, subject_type, subject_id, user_id);
DROP INDEX relations_by_object;
CREATE INDEX relations_by_object ON relations (tenant_id, object_type, object_id, user_id);
