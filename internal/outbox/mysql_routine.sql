(
  IN action VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN part VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
SQL SECURITY DEFINER
BEGIN
  DECLARE ddl, name, base, said TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE until DATETIME;
  DECLARE n INT DEFAULT 1;
  DECLARE known BOOLEAN;
  IF action = 'cancel' THEN
    IF EXISTS (SELECT 1 FROM information_schema.processlist WHERE id = IS_USED_LOCK({lock}) AND state LIKE 'Waiting for table metadata lock%') THEN
      KILL QUERY IS_USED_LOCK({lock});
    END IF;
  ELSEIF action = 'body' THEN
    SELECT SHA2(REPLACE(REPLACE(routine_definition, '''', ''), '_utf8mb4', ''), 256) FROM information_schema.routines
      WHERE routine_schema = {schema} AND routine_name = {routine} AND security_type = 'DEFINER' AND sql_mode = 'STRICT_ALL_TABLES';
  ELSEIF action = 'list' THEN
    SELECT partition_name AS name, partition_ordinal_position AS n, partition_description AS bound, NULL AS taken, TRUE AS untouched
      FROM information_schema.partitions WHERE table_schema = {schema} AND table_name = {table} AND partition_name IS NOT NULL
    UNION ALL SELECT table_name, NULL, NULL, SUBSTR(table_comment, CHAR_LENGTH({taken}) + 1), {untouched}
      FROM information_schema.tables WHERE table_schema = {schema} AND {ours};
  ELSEIF COALESCE(IS_USED_LOCK({lock}), 0) <> CONNECTION_ID() THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this connection does not hold the lock of the partitions';
  ELSE
    SELECT IF(partition_description = 'MAXVALUE', UTC_TIMESTAMP(), CAST(TRIM(BOTH '''' FROM partition_description) AS DATETIME)) INTO until
      FROM information_schema.partitions WHERE table_schema = {schema} AND table_name = {table} AND CAST(partition_name AS BINARY) = CAST(part AS BINARY);
    IF action IN ('flat', 'exchange', 'merge') AND COALESCE(until > UTC_TIMESTAMP(), TRUE) THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not a partition of a day that has ended';
    ELSEIF action = 'make' THEN
      SET until = CAST(SUBSTR(part, 2) AS DATETIME);
      SET ddl = CONCAT({alter}, 'REORGANIZE PARTITION pmax INTO (PARTITION p', DATE_FORMAT(until, '%Y%m%d'),
        ' VALUES LESS THAN (''', DATE(until) + INTERVAL 1 DAY, '''), PARTITION pmax VALUES LESS THAN (MAXVALUE))');
    ELSEIF action = 'spare' THEN
      SET ddl = {like};
    ELSEIF action = 'flat' THEN
      IF EXISTS (SELECT 1 FROM {spare}) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table is not empty';
      END IF;
      SET ddl = CONCAT({alter_spare}, 'COMMENT = ', QUOTE(CONCAT({taken}, until, ', noted ', UTC_TIMESTAMP())), ' REMOVE PARTITIONING');
    ELSEIF action = 'exchange' THEN
      IF EXISTS (SELECT 1 FROM {spare}) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table is not empty';
      ELSEIF NOT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {spare_name} AND {ours} AND {end} >= until - INTERVAL 10 MINUTE) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table was made for another partition';
      END IF;
      SET ddl = CONCAT({alter}, 'EXCHANGE PARTITION `', REPLACE(part, '`', '``'), {with_spare});
    ELSEIF action = 'finish' THEN
      SELECT table_comment, {ours} AND {untouched} OR COALESCE(create_options, '') LIKE '%partitioned%' INTO said, known
        FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {spare_name};
      IF said IS NULL THEN
        SET ddl = NULL;
      ELSEIF NOT known THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1050, MESSAGE_TEXT = {in_the_way};
      ELSEIF NOT EXISTS (SELECT 1 FROM {spare}) THEN
        SET ddl = {drop_spare};
      ELSE
        SET until = CAST(SUBSTR(said, CHAR_LENGTH({taken}) + 1, 19) AS DATETIME);
        SET base = CONCAT({prefix}, IF(TIME(until) = 0, DATE_FORMAT(until - INTERVAL 1 DAY, '%Y%m%d'), DATE_FORMAT(until, 'max_%Y%m%d%H%i%s')));
        SET name = base;
        WHILE EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = {schema} AND LOWER(table_name) = LOWER(name)) DO
          SET n = n + 1, name = CONCAT(base, '_', n);
        END WHILE;
        SET said = CONCAT({taken}, until, ', noted ', UTC_TIMESTAMP());
        IF CHAR_LENGTH({executed}) < 1900 - CHAR_LENGTH(said) THEN
          SET said = CONCAT(said, ', GTID ', REPLACE({executed}, CHAR(10), ''));
        END IF;
        SET ddl = CONCAT({alter_spare}, 'RENAME TO ', {database}, '`', REPLACE(name, '`', '``'), '`', ', COMMENT = ', QUOTE(said));
      END IF;
    ELSEIF action = 'merge' THEN
      SELECT partition_name INTO base FROM information_schema.partitions
        WHERE table_schema = {schema} AND table_name = {table} AND partition_ordinal_position = 1;
      SELECT partition_name INTO name FROM information_schema.partitions
        WHERE table_schema = {schema} AND table_name = {table} AND partition_ordinal_position = 2;
      IF name <> part THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not the second partition';
      END IF;
      SET ddl = CONCAT({alter}, 'REORGANIZE PARTITION `', REPLACE(base, '`', '``'), '`, `', REPLACE(name, '`', '``'), '` INTO (PARTITION `', REPLACE(name, '`', '``'), '` VALUES LESS THAN (''', DATE(until), '''))');
    ELSEIF action = 'drop' THEN
      SELECT table_name, {end} INTO name, until FROM information_schema.tables WHERE table_schema = {schema} AND CAST(table_name AS BINARY) = CAST(part AS BINARY) AND {ours};
      IF name IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no table that was taken out';
      ELSEIF COALESCE(until + INTERVAL {age} HOUR > UTC_TIMESTAMP(), TRUE) THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {young}, MESSAGE_TEXT = 'it was a part of the table within the last 24 hours';
      END IF;
      SET ddl = CONCAT('DROP TABLE ', {database}, '`', REPLACE(name, '`', '``'), '`');
    ELSE
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'unknown action';
    END IF;
    IF ddl IS NOT NULL THEN
      SET @cdc_relay_ddl = ddl;
      PREPARE cdc_relay_ddl FROM @cdc_relay_ddl;
      EXECUTE cdc_relay_ddl;
      DEALLOCATE PREPARE cdc_relay_ddl;
    END IF;
  END IF;
END
