-- +goose Up
-- Append only: applications insert, cdc-relay reads the inserts from the WAL.
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
) PARTITION BY RANGE (created_at);

CREATE SCHEMA IF NOT EXISTS cdc_relay;

-- +goose StatementBegin
-- Daily partitions (UTC) from 2026-01-02, 14 days ahead, and one for what falls outside.
-- Created separately and then attached, which does not block writers.
DO $$
DECLARE
  outbox text := 'public.outbox';
  since timestamptz;
  part text;
BEGIN
  FOR day IN 0..14 LOOP
    since := timestamptz '2026-01-02 00:00+00' + day * interval '24 hours';
    part := 'cdc_relay.' || quote_ident('public_outbox_' || to_char(since AT TIME ZONE 'UTC', 'YYYYMMDD'));
    CONTINUE WHEN EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(part));
    EXECUTE format('CREATE TABLE IF NOT EXISTS %s (LIKE %s INCLUDING ALL)', part, outbox);
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT bound CHECK (created_at >= %L AND created_at < %L)',
      part, since, since + interval '24 hours');
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
      outbox, part, since, since + interval '24 hours');
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT bound', part);
  END LOOP;
  part := 'cdc_relay.' || quote_ident('public_outbox_default');
  IF NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(part)) THEN
    EXECUTE format('CREATE TABLE IF NOT EXISTS %s (LIKE %s INCLUDING ALL)', part, outbox);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s DEFAULT', outbox, part);
  END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- This loses the events that are not published yet.
DROP TABLE IF EXISTS public.outbox;

-- +goose StatementBegin
DO $$
BEGIN
  DROP SCHEMA IF EXISTS cdc_relay;
EXCEPTION WHEN dependent_objects_still_exist THEN
  NULL; -- another outbox table has its partitions there
END
$$;
-- +goose StatementEnd
