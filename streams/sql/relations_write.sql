-- The relations of memories, and the entities they are between.
WITH given AS MATERIALIZED (
    SELECT memory_id, subject_type, subject_id, predicate, object_type, object_id, weight, live
    FROM json_populate_recordset(NULL::relations, %(relations)s::json)
), stated AS (
    INSERT INTO relations (
        tenant_id, user_id, memory_id, subject_type, subject_id, predicate, object_type, object_id, weight, live
    )
    SELECT %(tenant_id)s, %(user_id)s, memory_id, subject_type, subject_id, predicate, object_type, object_id, weight, live
    FROM given
)
INSERT INTO entities (tenant_id, user_id, entity_type, entity_id, names)
SELECT %(tenant_id)s, %(user_id)s, entity_type, entity_id, ARRAY[entity_id]
FROM (
    SELECT subject_type AS entity_type, subject_id AS entity_id FROM given
    UNION SELECT object_type, object_id FROM given
) AS between_entities
ON CONFLICT DO NOTHING;
