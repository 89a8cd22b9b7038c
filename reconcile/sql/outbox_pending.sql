-- Rows of these aggregates that will be published; what stands behind a dead row of its user stays and is not waited for.
SELECT o.outbox_id
FROM memory_outbox AS o
JOIN unnest(%(tenant_ids)s::text[], %(aggregate_ids)s::text[]) AS wanted (tenant_id, aggregate_id)
    ON o.tenant_id = wanted.tenant_id AND o.aggregate_id = wanted.aggregate_id
WHERE o.target = %(target)s
    AND NOT EXISTS (SELECT FROM outbox_dead AS d WHERE d.tenant_id = o.tenant_id AND d.user_id = o.user_id)
