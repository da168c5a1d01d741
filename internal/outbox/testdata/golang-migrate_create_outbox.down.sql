-- This loses the events that are not published yet.
DROP TABLE IF EXISTS public.outbox;

DROP FUNCTION IF EXISTS cdc_relay.public_outbox_maintain(text, timestamp);

DO $$
BEGIN
  DROP SCHEMA IF EXISTS cdc_relay;
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
  NULL; -- another outbox table has its partitions there, or another role owns the schema
END
$$;
