-- Row-level security is forced on every table with a tenant, so that not even the owner passes by it. A role sees what a
-- policy gives it and nothing else. The scope functions stand in a sub-select, so that they run once a statement.

DO $$
DECLARE
    name text;
    scoped text := '(tenant_id = (SELECT engram_tenant()) AND user_id = (SELECT engram_user()))';
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'memories', 'memory_history', 'memory_edges', 'entities', 'relations', 'memory_vectors', 'memory_access',
        'pending', 'review', 'quarantine', 'before_marks', 'command_outcomes', 'user_positions', 'delegations',
        'chat_history', 'working_memory', 'working_events', 'memory_outbox', 'outbox_dead'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        -- One user per transaction for everybody who serves users; the grants below say which verbs.
        EXECUTE format('CREATE POLICY one_user ON %I TO engram_writer, engram_working, engram_reader USING %s WITH CHECK %s',
                       name, scoped, scoped);
    END LOOP;
END
$$;

-- engram_writer: what remember decides, for one user a transaction.
GRANT SELECT, INSERT, UPDATE, DELETE ON memories, memory_history, memory_edges, entities, relations, memory_vectors,
    pending, review, quarantine, before_marks, command_outcomes, user_positions, delegations TO engram_writer;
GRANT INSERT ON memory_outbox TO engram_writer;
GRANT SELECT, INSERT, UPDATE ON positions TO engram_writer;

-- engram_working: chat history and the state of sessions, for one user a transaction.
GRANT SELECT, INSERT, UPDATE, DELETE ON chat_history, working_memory, working_events TO engram_working;
GRANT INSERT ON memory_outbox TO engram_working;
GRANT SELECT, INSERT, UPDATE ON positions TO engram_working;

-- engram_reader: recall, listings, waiting. It counts accesses and changes nothing else.
GRANT SELECT ON memories, memory_history, memory_edges, entities, relations, memory_vectors, memory_access, pending,
    review, quarantine, command_outcomes, user_positions, delegations, chat_history, working_memory, working_events,
    positions, projections TO engram_reader;
GRANT INSERT, UPDATE ON memory_access TO engram_reader;

-- engram_relay publishes for every user: it reads and removes outbox rows, and reads the rows whose snapshot it sends.
GRANT SELECT, UPDATE, DELETE ON memory_outbox TO engram_relay;
GRANT SELECT, INSERT, DELETE ON outbox_dead TO engram_relay;
-- A requeued row keeps its place in the order, so the relay may insert with the old id.
GRANT INSERT ON memory_outbox TO engram_relay;
GRANT SELECT ON memories, memory_history, memory_edges, memory_vectors, working_events, projections TO engram_relay;
CREATE POLICY relay_publishes ON memory_outbox TO engram_relay USING (true) WITH CHECK (true);
CREATE POLICY relay_buries ON outbox_dead TO engram_relay USING (true) WITH CHECK (true);
CREATE POLICY relay_snapshots ON memories FOR SELECT TO engram_relay USING (true);
CREATE POLICY relay_snapshots ON memory_history FOR SELECT TO engram_relay USING (true);
CREATE POLICY relay_snapshots ON memory_edges FOR SELECT TO engram_relay USING (true);
CREATE POLICY relay_snapshots ON memory_vectors FOR SELECT TO engram_relay USING (true);
CREATE POLICY relay_snapshots ON working_events FOR SELECT TO engram_relay USING (true);

-- engram_projector owns the table of generations and sees no user's data: it lives from the topics.
GRANT SELECT, INSERT, UPDATE, DELETE ON projections TO engram_projector;

-- engram_reconcile compares every user's fingerprints with the stores and asks for publication again.
GRANT SELECT ON memories, memory_history, memory_edges, relations, entities, memory_vectors, working_events, positions,
    projections, memory_outbox, outbox_dead TO engram_reconcile;
GRANT INSERT ON memory_outbox TO engram_reconcile;
CREATE POLICY reconcile_compares ON memories FOR SELECT TO engram_reconcile USING (true);
CREATE POLICY reconcile_compares ON memory_history FOR SELECT TO engram_reconcile USING (true);
CREATE POLICY reconcile_compares ON memory_edges FOR SELECT TO engram_reconcile USING (true);
CREATE POLICY reconcile_compares ON relations FOR SELECT TO engram_reconcile USING (true);
CREATE POLICY reconcile_compares ON entities FOR SELECT TO engram_reconcile USING (true);
CREATE POLICY reconcile_compares ON memory_vectors FOR SELECT TO engram_reconcile USING (true);
CREATE POLICY reconcile_compares ON working_events FOR SELECT TO engram_reconcile USING (true);
CREATE POLICY reconcile_waits ON memory_outbox FOR SELECT TO engram_reconcile USING (true);
CREATE POLICY reconcile_waits ON outbox_dead FOR SELECT TO engram_reconcile USING (true);
-- Only repairs: a row with a payload would be a change that nobody decided.
CREATE POLICY reconcile_repairs ON memory_outbox FOR INSERT TO engram_reconcile
    WITH CHECK (payload IS NULL AND repair_header IS NOT NULL);
-- A row lock needs the right to update; this policy lets it lock and refuses every real update.
GRANT UPDATE (updated_at_ms) ON memories TO engram_reconcile;
CREATE POLICY reconcile_locks ON memories FOR UPDATE TO engram_reconcile USING (true) WITH CHECK (false);
