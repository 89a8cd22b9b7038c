-- Everything before this offset is folded.
UPDATE refolding SET next_offset = %(next_offset)s WHERE partition = %(partition)s;
