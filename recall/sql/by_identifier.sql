-- Memories that name an identifier of the question: as their entity, as their value, or inside their text.
SELECT memory_id::text, entity_id = ANY(%(identifiers)s::text[]) OR lower(value #>> '{}') = ANY(%(lowered)s::text[]) AS exact
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status = ANY(%(statuses)s::text[])
    AND (entity_id = ANY(%(identifiers)s::text[]) OR lower(value #>> '{}') = ANY(%(lowered)s::text[])
         OR content ILIKE ANY(%(patterns)s::text[]))
ORDER BY 2 DESC, status = 'active' DESC, stated_at_ms DESC, memory_id
LIMIT %(limit)s
