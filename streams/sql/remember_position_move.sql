-- The proposal at this offset is decided.
UPDATE positions SET last_offset = %(offset)s WHERE role = 'remember' AND partition = %(partition)s;
