-- Version 2: the function enqueue(…), version 1. Its page is src/journal/postgres/enqueue.md.

CREATE FUNCTION {schema}.enqueue(
    method text,
    url text,
    body bytea DEFAULT '',
    headers jsonb DEFAULT '{}',
    name text DEFAULT NULL,
    scope text DEFAULT '',
    contract text DEFAULT 'generic',
    valid_for interval DEFAULT interval '24 hours',
    context jsonb DEFAULT NULL,
    key text DEFAULT NULL,
    key_header text DEFAULT 'idempotency-key',
    key_format text DEFAULT 'hyphenated',
    stored text[] DEFAULT '{}'
) RETURNS text
LANGUAGE plpgsql
AS $function$
DECLARE
    minted text := coalesce(enqueue.key, gen_random_uuid()::text);
    -- A caller's key is its name.
    named text := coalesce(enqueue.name, enqueue.key);
    spelled text;
    kept jsonb := '[]';
    missing text[] := '{}';
    window_ms bigint := floor(extract(epoch FROM valid_for) * 1000);
    margin_ms bigint := least(window_ms / 10, 300000);
    moment timestamptz := statement_timestamp();
    row_id bigint;
    present record;
    header record;
BEGIN
    IF method IS NULL OR method !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$' THEN
        RAISE EXCEPTION 'post_once: % is no method', quote_nullable(method) USING ERRCODE = '22023';
    ELSIF url IS NULL OR url !~* '^https?://[^/?#@[:space:]]+([/?#][^[:space:]]*)?$' THEN
        RAISE EXCEPTION 'post_once: give an absolute http or https URL, without user and password'
            USING ERRCODE = '22023';
    ELSIF body IS NULL OR scope IS NULL OR contract IS NULL OR key_header IS NULL THEN
        RAISE EXCEPTION 'post_once: body, scope, contract and key_header cannot be null'
            USING ERRCODE = '22004';
    ELSIF window_ms <= 0 THEN
        RAISE EXCEPTION 'post_once: valid_for must be longer than nothing' USING ERRCODE = '22023';
    ELSIF minted !~ '^[!-~]([ -~]{0,253}[!-~])?$' THEN
        RAISE EXCEPTION 'post_once: a key has 1 to 255 printable ASCII characters, no space at either end'
            USING ERRCODE = '22023';
    ELSIF octet_length(scope) + coalesce(octet_length(named), 0) > 2000 THEN
        RAISE EXCEPTION 'post_once: scope and name have at most 2000 bytes together'
            USING ERRCODE = '22023';
    END IF;
    spelled := CASE key_format
        WHEN 'hyphenated' THEN minted
        WHEN 'simple' THEN CASE
            WHEN minted ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN replace(minted, '-', '')
            ELSE minted END
        WHEN 'quoted' THEN '"' || regexp_replace(minted, '(["\\])', '\\\1', 'g') || '"'
    END;
    IF spelled IS NULL THEN
        RAISE EXCEPTION 'post_once: key_format is hyphenated, simple or quoted' USING ERRCODE = '22023';
    END IF;

    -- The classes of src/journal/headers.rs: stored, droppable, and everything else is a credential.
    FOR header IN
        SELECT lower(pair.key) AS name, pair.value AS value FROM jsonb_each_text(headers) AS pair
        ORDER BY pair.key
    LOOP
        IF header.name = lower(key_header) THEN
            RAISE EXCEPTION 'post_once: the key goes into the argument key, not into headers'
                USING ERRCODE = '22023';
        ELSIF header.name = ANY (ARRAY['accept', 'content-encoding', 'content-language',
            'content-type', 'prefer', 'if-match'] || ARRAY(SELECT lower(s) FROM unnest(stored) AS s))
        THEN
            kept := kept || jsonb_build_array(jsonb_build_array(header.name,
                convert_from(convert_to(coalesce(header.value, ''), 'UTF8'), 'LATIN1')));
        ELSIF header.name <> ALL (ARRAY['accept-encoding', 'accept-language', 'baggage',
            'cache-control', 'connection', 'content-length', 'date', 'expect', 'host', 'te',
            'traceparent', 'tracestate', 'transfer-encoding', 'user-agent'])
        THEN
            missing := missing || header.name;
        END IF;
    END LOOP;
    kept := kept || jsonb_build_array(jsonb_build_array(lower(key_header), spelled));

    INSERT INTO {schema}.operation AS o (scope, name, key, head, body, open_us, token, attempts,
        lost, claimed, created, updated, due, bare)
    VALUES (enqueue.scope, named, minted,
        json_build_object('v', 1, 'method', method, 'url', url, 'headers', kept,
            'missing', missing, 'contract', contract, 'window_ms', window_ms,
            'margin_ms', margin_ms, 'context', enqueue.context::text, 'keep_trying', true)::text,
        enqueue.body, (window_ms - margin_ms) * 1000, 0, 0, 0, false, moment, moment, moment, true)
    ON CONFLICT DO NOTHING
    RETURNING o.id INTO row_id;
    IF row_id IS NOT NULL THEN
        RETURN minted;
    END IF;

    SELECT o.key, o.body, o.head::json ->> 'method' AS method, o.head::json ->> 'url' AS url
    INTO STRICT present
    FROM {schema}.operation o WHERE o.scope = enqueue.scope AND o.name = named;
    -- A purged body compares with nothing.
    IF present.method <> method OR present.url <> url
        OR (present.body <> enqueue.body AND present.body <> '')
    THEN
        RAISE EXCEPTION 'post_once: the name % is that of another request', quote_literal(named)
            USING ERRCODE = '23505', HINT = 'An operation has one request: give this one another name.';
    END IF;
    RETURN present.key;
END
$function$;

COMMENT ON FUNCTION {schema}.enqueue(text, text, bytea, jsonb, text, text, text, interval, jsonb, text,
    text, text, text[]) IS 'post-once: enqueues an operation in this transaction; version 1';
