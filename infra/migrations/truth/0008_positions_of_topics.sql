-- positions.topic_identity held the id of the cluster alone; it is now that of cluster and topic, as in topic_identities.
UPDATE positions AS p SET topic_identity = t.identity
FROM topic_identities AS t
WHERE t.topic LIKE '%' || CASE p.role WHEN 'remember' THEN 'memory.proposals' ELSE 'chat.turns' END
  AND starts_with(t.identity, p.topic_identity || '/');
