# No test runs this migration with Rails. Set config.active_record.schema_format = :sql: schema.rb has no partitions.
class CreateOutbox < ActiveRecord::Migration[7.0]
  def up
    # Append only: applications insert, cdc-relay reads the inserts from the WAL.
    execute <<'SQL'
CREATE TABLE IF NOT EXISTS public.outbox (
  event_id uuid NOT NULL,
  aggregate_type text NOT NULL,
  aggregate_id text NOT NULL,
  event_type text NOT NULL,
  tenant_id text,
  topic text,
  partition_key text,
  content_type text NOT NULL DEFAULT 'application/json',
  schema_id text,
  schema_version int,
  headers jsonb,
  payload bytea,
  occurred_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_id, created_at)
) PARTITION BY RANGE (created_at)
SQL
    execute <<'SQL'
CREATE SCHEMA IF NOT EXISTS cdc_relay
SQL
    # Daily partitions (UTC) from 2026-01-02, 14 days ahead, and one for what falls outside.
    # Created separately and then attached, which does not block writers.
    execute <<'SQL'
DO $$
DECLARE
  outbox text := 'public.outbox';
  since timestamptz;
  part text;
BEGIN
  FOR day IN 0..14 LOOP
    since := timestamptz '2026-01-02 00:00+00' + day * interval '24 hours';
    part := 'cdc_relay.' || quote_ident('public_outbox_' || to_char(since AT TIME ZONE 'UTC', 'YYYYMMDD'));
    CONTINUE WHEN EXISTS (SELECT FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
      WHERE inhparent = outbox::regclass AND right(relname, 9) = to_char(since AT TIME ZONE 'UTC', '_YYYYMMDD'));
    EXECUTE format('CREATE TABLE IF NOT EXISTS %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY)', part, outbox);
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT bound CHECK (created_at >= %L AND created_at < %L)',
      part, since, since + interval '24 hours');
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
      outbox, part, since, since + interval '24 hours');
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT bound', part);
  END LOOP;
  part := 'cdc_relay.' || quote_ident('public_outbox_default');
  IF NOT EXISTS (SELECT FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
      WHERE inhparent = outbox::regclass AND pg_get_expr(relpartbound, c.oid) = 'DEFAULT') THEN
    EXECUTE format('CREATE TABLE IF NOT EXISTS %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY)', part, outbox);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s DEFAULT', outbox, part);
  END IF;
END
$$
SQL
    # Maintains the partitions of public.outbox for a role that has no rights on it. Nobody but the owner may
    # call it until it is granted.
    execute <<'SQL'
CREATE OR REPLACE FUNCTION cdc_relay.public_outbox_maintain(action text, at timestamp) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO' SET lock_timeout = '20ms' AS $$
DECLARE
  outbox CONSTANT text := 'public.outbox';
  taken CONSTANT text := 'cdc-relay: taken out of public.outbox, until ';
  since CONSTANT timestamptz := date_trunc('day', at);
  until CONSTANT timestamptz := since + interval '24 hours';
  day CONSTANT text := 'cdc_relay.' || quote_ident('public_outbox_' || to_char(at, 'YYYYMMDD'));
  rest CONSTANT text := (SELECT format('%I.%I', nspname, relname) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = relnamespace
    WHERE inhparent = outbox::regclass AND nspname || '.' = 'cdc_relay.' AND pg_get_expr(relpartbound, c.oid) = 'DEFAULT');
  fresh CONSTANT text := 'cdc_relay.' || quote_ident('public_outbox_' || 'new');
  moment CONSTANT timestamptz := date_trunc('second', clock_timestamp());
  part text;
  ended timestamptz;
  n bigint := 0;
BEGIN
  IF action IN ('make', 'swap') THEN
    EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY)', day, outbox);
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT bound CHECK (created_at >= %L AND created_at < %L)', day, since, until);
    IF action = 'swap' THEN
      IF rest IS NULL THEN
        RAISE EXCEPTION '% has no default partition of cdc-relay', outbox;
      END IF;
      EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY)', fresh, outbox);
      EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', outbox);
      EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', rest);
      EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', outbox, rest);
      EXECUTE format('COMMENT ON TABLE %s IS %L', rest, format('%s%s, WAL %s, transaction %s', taken, moment, pg_current_wal_insert_lsn(), pg_current_xact_id()::xid));
      EXECUTE format('ALTER TABLE %s RENAME TO %I', rest, 'public_outbox_' || 'default_' || to_char(moment, 'YYYYMMDDHH24MISS'));
      EXECUTE format('ALTER TABLE %s RENAME TO %I', fresh, 'public_outbox_' || 'default');
    END IF;
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', outbox, day, since, until);
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT bound', day);
    IF action = 'swap' THEN
      EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s DEFAULT', outbox, 'cdc_relay.' || quote_ident('public_outbox_' || 'default'));
    END IF;
  ELSIF action = 'take_out' THEN
    part := (SELECT format('%I.%I', nspname, relname) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = relnamespace
      WHERE inhparent = outbox::regclass AND nspname || '.' = 'cdc_relay.' AND right(relname, 9) = to_char(at, '_YYYYMMDD')
      AND pg_get_expr(relpartbound, c.oid) = format('FOR VALUES FROM (%L) TO (%L)', since, until));
    IF until > now() OR part IS NULL THEN
      RAISE EXCEPTION '% has no partition for %, or that day has not ended', outbox, since;
    END IF;
    EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', outbox);
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', concat_ws(', ', part, rest));
    EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', outbox, part);
    EXECUTE format('COMMENT ON TABLE %s IS %L', part, format('%s%s, WAL %s, transaction %s', taken, until, pg_current_wal_insert_lsn(), pg_current_xact_id()::xid));
  ELSIF action IN ('drop', 'drop_default') THEN
    SELECT format('%I.%I', nspname, relname), split_part(substr(description, length(taken) + 1), ',', 1)::timestamptz INTO part, ended
      FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_description ON objoid = c.oid AND classoid = 'pg_class'::regclass AND objsubid = 0
      WHERE nspname || '.' = 'cdc_relay.' AND relkind = 'r' AND NOT relispartition AND starts_with(description, taken)
      AND relname ~ (CASE action WHEN 'drop' THEN to_char(at, '_YYYYMMDD') ELSE to_char(at, '"_default_"YYYYMMDDHH24MISS') END || '$');
    IF part IS NULL THEN
      RAISE EXCEPTION 'no table of that time was taken out of %', outbox;
    ELSIF ended + interval '24 hours' > now() THEN
      RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = format('%s was a part of %s until %s', part, outbox, ended);
    END IF;
    EXECUTE format('DROP TABLE %s', part);
  ELSIF action = 'default_rows' THEN
    IF rest IS NOT NULL THEN
      EXECUTE format('SELECT count(*) FROM (SELECT FROM %s LIMIT 100000) AS counted', rest) INTO n;
    END IF;
  ELSE
    RAISE EXCEPTION 'unknown action %', action;
  END IF;
  RETURN n;
END
$$
SQL
    execute <<'SQL'
REVOKE ALL ON FUNCTION cdc_relay.public_outbox_maintain(text, timestamp) FROM PUBLIC
SQL
    execute <<'SQL'
DO $$
DECLARE
  owner text := (SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = 'public.outbox'::regclass);
BEGIN
  IF owner <> quote_ident(current_user) THEN
    EXECUTE 'GRANT USAGE, CREATE ON SCHEMA cdc_relay TO ' || owner;
    EXECUTE 'ALTER FUNCTION cdc_relay.public_outbox_maintain(text, timestamp) OWNER TO ' || owner;
  END IF;
END
$$
SQL
  end

  def down
    # This loses the events that are not published yet.
    execute <<'SQL'
DROP TABLE IF EXISTS public.outbox
SQL
    execute <<'SQL'
DROP FUNCTION IF EXISTS cdc_relay.public_outbox_maintain(text, timestamp)
SQL
    execute <<'SQL'
DO $$
BEGIN
  DROP SCHEMA IF EXISTS cdc_relay;
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
  NULL; -- another outbox table has its partitions there, or another role owns the schema
END
$$
SQL
  end
end
