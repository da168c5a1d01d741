-- To be run by an administrator.

-- If the role does not exist: CREATE ROLE relay LOGIN PASSWORD '...'.
-- Managed services have a role to grant instead: GRANT rds_replication TO ... on Amazon RDS.
ALTER ROLE relay WITH REPLICATION;

-- To be run by the owner of the table, with CREATE on the database.

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

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'cdc_relay_shop') THEN
    CREATE PUBLICATION cdc_relay_shop FOR TABLE public.outbox, app."order"
      WITH (publish = 'insert', publish_via_partition_root = true);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_publication_rel JOIN pg_publication p ON p.oid = prpubid
      WHERE pubname = 'cdc_relay_shop' AND prrelid = 'public.outbox'::regclass) THEN
    ALTER PUBLICATION cdc_relay_shop ADD TABLE public.outbox;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_publication_rel JOIN pg_publication p ON p.oid = prpubid
      WHERE pubname = 'cdc_relay_shop' AND prrelid = 'app."order"'::regclass) THEN
    ALTER PUBLICATION cdc_relay_shop ADD TABLE app."order";
  END IF;
END
$$;

GRANT USAGE ON SCHEMA public TO relay;

GRANT SELECT ON TABLE public.outbox TO relay;

GRANT USAGE ON SCHEMA app TO relay;

GRANT SELECT ON TABLE app."order" TO relay;

-- To be run by the relay's role, with REPLICATION.

-- From here on PostgreSQL keeps WAL until the relay has read it.
-- In a transaction of its own, once the publication is committed.
SELECT pg_create_logical_replication_slot('cdc_relay_shop', 'pgoutput', failover => true)
WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = 'cdc_relay_shop');
