-- New data keys of many users in one round trip: one user after the other, each in the scope of that user alone. A user whose key
-- is not alive any more gets none and no row in the answer; the row of a key that is alive is locked against destruction.
CREATE FUNCTION data_keys_made(
    given_tenants text[], given_users text[], given_generations integer[], given_keys uuid[], given_nonces bytea[],
    given_wrapped bytea[]
)
RETURNS TABLE (made_tenant text, made_user text)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT given.tenant, given.owner, given.generation, array_agg(given.key_id ORDER BY given.place) AS key_ids,
            array_agg(given.nonce ORDER BY given.place) AS nonces, array_agg(given.wrapped ORDER BY given.place) AS wraps
        FROM unnest(given_tenants, given_users, given_generations, given_keys, given_nonces, given_wrapped)
            WITH ORDINALITY AS given (tenant, owner, generation, key_id, nonce, wrapped, place)
        GROUP BY given.tenant, given.owner, given.generation
        -- Two processes that lock the same users do it in the same order.
        ORDER BY given.tenant COLLATE "C", given.owner COLLATE "C"
    LOOP
        PERFORM set_config('engram.tenant_id', one.tenant, true), set_config('engram.user_id', one.owner, true);
        PERFORM FROM user_keys AS alive
        WHERE alive.tenant_id = one.tenant AND alive.user_id = one.owner AND alive.generation = one.generation
          AND alive.destroyed_at IS NULL
        FOR SHARE;
        IF FOUND THEN
            INSERT INTO data_keys (tenant_id, user_id, key_id, generation, nonce, wrapped)
            SELECT one.tenant, one.owner, made.key_id, one.generation, made.nonce, made.wrapped
            FROM unnest(one.key_ids, one.nonces, one.wraps) AS made (key_id, nonce, wrapped);
            made_tenant := one.tenant;
            made_user := one.owner;
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION data_keys_made(text[], text[], integer[], uuid[], bytea[], bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION data_keys_made(text[], text[], integer[], uuid[], bytea[], bytea[]) TO engram_keys;
