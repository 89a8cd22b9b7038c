-- Fence: whoever holds this row is the only writer of its partition until the transaction ends.
SELECT topic_identity, last_offset FROM positions
WHERE role = 'remember' AND partition = %(partition)s FOR UPDATE;
