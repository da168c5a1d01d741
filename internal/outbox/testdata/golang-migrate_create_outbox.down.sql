-- This loses the events that are not published yet.
DROP TABLE IF EXISTS public.outbox;

DO $$
BEGIN
  DROP SCHEMA IF EXISTS cdc_relay;
EXCEPTION WHEN dependent_objects_still_exist THEN
  NULL; -- another outbox table has its partitions there
END
$$;
