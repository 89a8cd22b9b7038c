-- Data keys of many users in one round trip: one user after the other, each in the scope of that user alone, so that the forced
-- policies of both tables hold as ever. It replaces the function that did this for one user.
CREATE FUNCTION data_keys_of_users(wanted_tenants text[], wanted_users text[], wanted_keys uuid[])
RETURNS TABLE (
    found_tenant text, found_user text, found_key uuid, nonce bytea, wrapped bytea, generation integer, owner_nonce bytea,
    owner_wrapped bytea
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT wanted.tenant, wanted.owner, array_agg(wanted.key_id) AS key_ids
        FROM unnest(wanted_tenants, wanted_users, wanted_keys) AS wanted (tenant, owner, key_id)
        GROUP BY wanted.tenant, wanted.owner
    LOOP
        PERFORM set_config('engram.tenant_id', one.tenant, true), set_config('engram.user_id', one.owner, true);
        RETURN QUERY
        SELECT keys.tenant_id, keys.user_id, keys.key_id, keys.nonce, keys.wrapped, owner.generation, owner.nonce,
            owner.wrapped
        FROM data_keys AS keys
        JOIN user_keys AS owner USING (tenant_id, user_id, generation)
        WHERE keys.tenant_id = one.tenant AND keys.user_id = one.owner AND keys.key_id = ANY(one.key_ids);
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION data_keys_of_users(text[], text[], uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION data_keys_of_users(text[], text[], uuid[]) TO engram_keys;
DROP FUNCTION data_keys_of(text, text, uuid[]);
