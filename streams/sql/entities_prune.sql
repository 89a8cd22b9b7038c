-- An entity without relations goes too.
DELETE FROM entities AS e
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
  AND NOT EXISTS (
      SELECT FROM relations AS r WHERE r.tenant_id = e.tenant_id AND r.user_id = e.user_id
          AND r.subject_type = e.entity_type AND r.subject_id = e.entity_id
  )
  AND NOT EXISTS (
      SELECT FROM relations AS r WHERE r.tenant_id = e.tenant_id AND r.user_id = e.user_id
          AND r.object_type = e.entity_type AND r.object_id = e.entity_id
  );
