-- Replace the outgoing edges of memories as a set: what is not in the list goes, the rest is set.
WITH given AS MATERIALIZED (
    SELECT memory_id, kind, target_kind, target_id, weight
    FROM json_populate_recordset(NULL::memory_edges, %(edges)s::json)
), gone AS (
    DELETE FROM memory_edges AS e
    WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.memory_id = ANY(%(memory_ids)s::uuid[])
      AND NOT EXISTS (
          SELECT FROM given AS g WHERE g.memory_id = e.memory_id AND g.kind = e.kind
              AND g.target_kind = e.target_kind AND g.target_id = e.target_id
      )
)
INSERT INTO memory_edges (tenant_id, user_id, memory_id, kind, target_kind, target_id, weight)
SELECT %(tenant_id)s, %(user_id)s, memory_id, kind, target_kind, target_id, weight FROM given
ON CONFLICT (tenant_id, user_id, memory_id, kind, target_kind, target_id) DO UPDATE SET weight = excluded.weight
WHERE memory_edges.weight <> excluded.weight;
