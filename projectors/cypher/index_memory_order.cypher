// Reconcile reads a generation by rising memory id.
CREATE INDEX memory_order IF NOT EXISTS FOR (m:Memory) ON (m.generation, m.memory_id)
