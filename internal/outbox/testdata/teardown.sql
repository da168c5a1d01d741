-- To be run by the relay's role, with REPLICATION.

SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
WHERE slot_name = 'cdc_relay_shop';

-- To be run by the owner of the table, with CREATE on the database.

DROP PUBLICATION IF EXISTS cdc_relay_shop;

DROP TABLE IF EXISTS public.outbox;

DROP FUNCTION IF EXISTS cdc_relay.public_outbox_maintain(text, timestamp);

DO $$
BEGIN
  DROP SCHEMA IF EXISTS cdc_relay;
EXCEPTION WHEN dependent_objects_still_exist THEN
  NULL; -- another outbox table has its partitions there
END
$$;
