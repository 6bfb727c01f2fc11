-- Version 1: the keys, who works on each, and its answer.

-- Times are instants (timestamptz), so that no session's time zone counts. There is no number of a row:
-- statements name (principal, key), so that the table can be partitioned by a hash of them.
CREATE TABLE {schema}.claim (
    principal text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    -- With the version of its algorithm.
    fingerprint text NOT NULL,
    -- Of the run that works on it, or was the last.
    token bigint NOT NULL,
    locked_until timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    runs integer NOT NULL DEFAULT 1,
    -- An answer is there when it has a status; its body is null when it was too large.
    status smallint,
    point_unconfirmed boolean NOT NULL DEFAULT false,
    point_name text,
    point_data text,
    header_lines bytea,
    body bytea,
    PRIMARY KEY (principal, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

-- What may be forgotten one day, by that day.
CREATE INDEX claim_expires ON {schema}.claim (expires_at)
    WHERE status IS NOT NULL OR point_name IS NULL;
-- What may have to wait for a person.
CREATE INDEX claim_half_done ON {schema}.claim (principal, key)
    WHERE status IS NULL AND (point_name IS NOT NULL OR runs >= 20);
