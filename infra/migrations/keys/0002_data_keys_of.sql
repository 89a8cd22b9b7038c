-- Data keys in one round trip: the scope is set and the keys are read by one statement, which is a transaction of its own.
-- It runs with the rights of its caller, so the forced policies of both tables hold inside it as they do outside.
CREATE FUNCTION data_keys_of(wanted_tenant text, wanted_user text, wanted_keys uuid[])
RETURNS TABLE (
    found_key uuid, nonce bytea, wrapped bytea, generation integer, owner_nonce bytea, owner_wrapped bytea
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
BEGIN
    PERFORM set_config('engram.tenant_id', wanted_tenant, true), set_config('engram.user_id', wanted_user, true);
    RETURN QUERY
    SELECT keys.key_id, keys.nonce, keys.wrapped, owner.generation, owner.nonce, owner.wrapped
    FROM data_keys AS keys
    JOIN user_keys AS owner USING (tenant_id, user_id, generation)
    WHERE keys.tenant_id = wanted_tenant AND keys.user_id = wanted_user AND keys.key_id = ANY(wanted_keys);
END
$$;
REVOKE ALL ON FUNCTION data_keys_of(text, text, uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION data_keys_of(text, text, uuid[]) TO engram_keys;
