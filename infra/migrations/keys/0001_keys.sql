-- The key store: an authority of its own. Materials are wrapped; without the master key nothing here opens anything.
CREATE TABLE user_keys (
    tenant_id  text NOT NULL,
    user_id    text NOT NULL,
    -- A returning user gets the next generation; data keys name the one they are wrapped with.
    generation integer NOT NULL,
    nonce      bytea,
    wrapped    bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    destroyed_at timestamptz,
    PRIMARY KEY (tenant_id, user_id, generation),
    CHECK ((wrapped IS NULL) = (destroyed_at IS NOT NULL))
);
CREATE UNIQUE INDEX user_keys_one_alive ON user_keys (tenant_id, user_id) WHERE destroyed_at IS NULL;

CREATE TABLE data_keys (
    tenant_id  text NOT NULL,
    user_id    text NOT NULL,
    key_id     uuid NOT NULL,
    generation integer NOT NULL,
    nonce      bytea,
    wrapped    bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    destroyed_at timestamptz,
    PRIMARY KEY (tenant_id, user_id, key_id),
    FOREIGN KEY (tenant_id, user_id, generation) REFERENCES user_keys,
    CHECK ((wrapped IS NULL) = (destroyed_at IS NOT NULL))
);

CREATE FUNCTION engram_tenant() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    scope text := current_setting('engram.tenant_id', true);
BEGIN
    IF scope IS NULL OR scope = '' THEN
        RAISE EXCEPTION 'engram.tenant_id is not set in this transaction' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN scope;
END
$$;

CREATE FUNCTION engram_user() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    scope text := current_setting('engram.user_id', true);
BEGIN
    IF scope IS NULL OR scope = '' THEN
        RAISE EXCEPTION 'engram.user_id is not set in this transaction' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN scope;
END
$$;

ALTER TABLE user_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE user_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE data_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE data_keys FORCE ROW LEVEL SECURITY;
-- The one role of the key store serves one user a transaction, like everybody else.
CREATE POLICY one_user ON user_keys TO engram_keys
    USING (tenant_id = (SELECT engram_tenant()) AND user_id = (SELECT engram_user()))
    WITH CHECK (tenant_id = (SELECT engram_tenant()) AND user_id = (SELECT engram_user()));
CREATE POLICY one_user ON data_keys TO engram_keys
    USING (tenant_id = (SELECT engram_tenant()) AND user_id = (SELECT engram_user()))
    WITH CHECK (tenant_id = (SELECT engram_tenant()) AND user_id = (SELECT engram_user()));
-- No DELETE: a destroyed key leaves its row, so that "erased" and "never existed" stay two answers.
GRANT SELECT, INSERT, UPDATE ON user_keys, data_keys TO engram_keys;
