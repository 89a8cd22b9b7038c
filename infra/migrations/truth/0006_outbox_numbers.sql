-- The relay asks for the last number given out, to know below which number nothing can appear any more.
GRANT SELECT ON SEQUENCE memory_outbox_outbox_id_seq TO engram_relay;
