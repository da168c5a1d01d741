DECLARE
  outbox CONSTANT text := {outbox};
  taken CONSTANT text := {taken};
  since CONSTANT timestamptz := date_trunc('day', at);
  until CONSTANT timestamptz := since + interval '24 hours';
  day CONSTANT text := {schema} || quote_ident({prefix} || to_char(at, 'YYYYMMDD'));
  rest CONSTANT text := (SELECT format('%I.%I', nspname, relname) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = relnamespace
    WHERE inhparent = outbox::regclass AND nspname || '.' = {schema} AND pg_get_expr(relpartbound, c.oid) = 'DEFAULT');
  fresh CONSTANT text := {schema} || quote_ident({prefix} || 'new');
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
      EXECUTE format('ALTER TABLE %s RENAME TO %I', rest, {prefix_default} || 'default_' || to_char(moment, 'YYYYMMDDHH24MISS'));
      EXECUTE format('ALTER TABLE %s RENAME TO %I', fresh, {prefix} || 'default');
    END IF;
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', outbox, day, since, until);
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT bound', day);
    IF action = 'swap' THEN
      EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s DEFAULT', outbox, {schema} || quote_ident({prefix} || 'default'));
    END IF;
  ELSIF action = 'take_out' THEN
    part := (SELECT format('%I.%I', nspname, relname) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = relnamespace
      WHERE inhparent = outbox::regclass AND nspname || '.' = {schema} AND right(relname, 9) = to_char(at, '_YYYYMMDD')
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
      WHERE nspname || '.' = {schema} AND relkind = 'r' AND NOT relispartition AND starts_with(description, taken)
      AND relname ~ (CASE action WHEN 'drop' THEN to_char(at, '_YYYYMMDD') ELSE to_char(at, '"_default_"YYYYMMDDHH24MISS') END || '$');
    IF part IS NULL THEN
      RAISE EXCEPTION 'no table of that time was taken out of %', outbox;
    ELSIF ended + interval {age} > now() THEN
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
