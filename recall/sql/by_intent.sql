-- What the question asks for by kind: the asked attributes first, then what is near them; of the user or of a named person.
-- A person's name means the user where the user is called so.
SELECT memory_id::text, attribute = ANY(%(attributes)s::text[]) AS exact, attribute, category
FROM memories AS m
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status = ANY(%(statuses)s::text[])
    AND (attribute = ANY(%(attributes)s::text[]) OR category = ANY(%(categories)s::text[]))
    AND (
        lower(subject) = ANY(%(subjects)s::text[])
        OR (subject = 'user' AND EXISTS (
            SELECT FROM memories AS named
            WHERE named.tenant_id = %(tenant_id)s AND named.user_id = %(user_id)s AND named.status = 'active'
                AND named.subject = 'user' AND named.attribute IN ('name', 'nickname')
                AND lower(named.value #>> '{}') = %(who)s
        ))
    )
ORDER BY 2 DESC, status = 'active' DESC, stated_at_ms DESC, memory_id
LIMIT %(limit)s
