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
  PRIMARY KEY (event_id)
);
