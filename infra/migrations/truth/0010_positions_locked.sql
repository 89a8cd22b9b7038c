-- Fence: whoever holds the rows of these partitions is their only writer until the transaction ends. Rows that are missing are
-- made first, at an offset before all others; then all are locked, in ascending order both times, so that two writers may wait
-- for one another but never in a circle.
CREATE FUNCTION positions_locked(wanted_role text, wanted_partitions integer[], identity text)
RETURNS TABLE (locked_partition integer, known_identity text, known_offset bigint)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
BEGIN
    INSERT INTO positions (role, partition, topic_identity, last_offset)
    SELECT wanted_role, wanted.number, identity, -1
    FROM unnest(wanted_partitions) AS wanted (number)
    WHERE NOT EXISTS (SELECT FROM positions AS p WHERE p.role = wanted_role AND p.partition = wanted.number)
    ORDER BY wanted.number
    ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT p.partition, p.topic_identity, p.last_offset FROM positions AS p
    WHERE p.role = wanted_role AND p.partition = ANY(wanted_partitions)
    ORDER BY p.partition
    FOR UPDATE;
END
$$;
REVOKE ALL ON FUNCTION positions_locked(text, integer[], text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION positions_locked(text, integer[], text) TO engram_writer, engram_working;
