-- When a comparison of the whole store proved that nothing is left of a conflict; one that comes back after that is open again.
ALTER TABLE projection_conflicts ADD COLUMN settled_at_ms bigint NOT NULL DEFAULT 0;
