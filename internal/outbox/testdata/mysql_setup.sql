-- To be run by an administrator, who grants rights and changes settings.

-- One step at a time; leave out completed steps (SELECT @@global.gtid_mode).
-- On a server with replicas each step must be taken on all of them before the next.
SET PERSIST enforce_gtid_consistency = ON;

SET PERSIST gtid_mode = OFF_PERMISSIVE;

SET PERSIST gtid_mode = ON_PERMISSIVE;

-- Once SHOW STATUS LIKE 'ONGOING_ANONYMOUS_TRANSACTION_COUNT' says 0.
SET PERSIST gtid_mode = ON;

-- Open connections keep the old value until they reconnect.
SET PERSIST binlog_format = ROW;

SET PERSIST sync_binlog = 1;

-- If the user does not exist: CREATE USER `relay`@`10.0.%` IDENTIFIED BY '...'.
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `relay`@`10.0.%`;

-- To be run by the owner of the table, with CREATE and ALTER on the database.

-- Append only: applications insert, cdc-relay reads the inserts from the binlog.
-- event_id holds the 16 bytes of a UUID, times are in UTC, headers are a JSON object.
CREATE TABLE IF NOT EXISTS `shop`.`outbox` (
  event_id VARBINARY(16) NOT NULL,
  aggregate_type VARCHAR(255) NOT NULL,
  aggregate_id VARCHAR(255) NOT NULL,
  event_type VARCHAR(255) NOT NULL,
  tenant_id VARCHAR(255),
  topic VARCHAR(255),
  partition_key VARCHAR(255),
  content_type VARCHAR(255) NOT NULL DEFAULT 'application/json',
  schema_id VARCHAR(255),
  schema_version INT,
  headers LONGTEXT,
  payload LONGBLOB,
  occurred_at DATETIME(6) NOT NULL,
  created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (event_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Maintains the partitions of shop.outbox for a user that has no rights on it. Its creator needs
-- CREATE ROUTINE, SELECT, INSERT, CREATE, ALTER and DROP on the database.
SET SESSION sql_mode = 'STRICT_ALL_TABLES';

DROP PROCEDURE IF EXISTS `shop`.`outbox_maintain`;

DELIMITER //
CREATE PROCEDURE `shop`.`outbox_maintain`(
  IN action VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN part VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
SQL SECURITY DEFINER
BEGIN
  DECLARE ddl, name, base, said TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE until DATETIME;
  DECLARE n INT DEFAULT 1;
  DECLARE known BOOLEAN;
  IF action = 'cancel' THEN
    IF EXISTS (SELECT 1 FROM information_schema.processlist WHERE id = IS_USED_LOCK('cdc-relay partitions shop.outbox') AND state LIKE 'Waiting for table metadata lock%') THEN
      KILL QUERY IS_USED_LOCK('cdc-relay partitions shop.outbox');
    END IF;
  ELSEIF action = 'body' THEN
    SELECT SHA2(REPLACE(REPLACE(routine_definition, '''', ''), '_utf8mb4', ''), 256) FROM information_schema.routines
      WHERE routine_schema = 'shop' AND routine_name = 'outbox_maintain' AND security_type = 'DEFINER' AND sql_mode = 'STRICT_ALL_TABLES';
  ELSEIF action = 'list' THEN
    SELECT partition_name AS name, partition_ordinal_position AS n, partition_description AS bound, NULL AS taken, TRUE AS untouched
      FROM information_schema.partitions WHERE table_schema = 'shop' AND table_name = 'outbox' AND partition_name IS NOT NULL
    UNION ALL SELECT table_name, NULL, NULL, SUBSTR(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ') + 1), COALESCE(ABS(UNIX_TIMESTAMP(create_time) - TIMESTAMPDIFF(SECOND, '1970-01-01', SUBSTR(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ') + 28, 19))) <= 60, FALSE)
      FROM information_schema.tables WHERE table_schema = 'shop' AND CAST(LEFT(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ')) AS BINARY) = CAST('cdc-relay: taken out of shop.outbox, until ' AS BINARY);
  ELSEIF COALESCE(IS_USED_LOCK('cdc-relay partitions shop.outbox'), 0) <> CONNECTION_ID() THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this connection does not hold the lock of the partitions';
  ELSE
    SELECT IF(partition_description = 'MAXVALUE', UTC_TIMESTAMP(), CAST(TRIM(BOTH '''' FROM partition_description) AS DATETIME)) INTO until
      FROM information_schema.partitions WHERE table_schema = 'shop' AND table_name = 'outbox' AND CAST(partition_name AS BINARY) = CAST(part AS BINARY);
    IF action IN ('flat', 'exchange', 'merge') AND COALESCE(until > UTC_TIMESTAMP(), TRUE) THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not a partition of a day that has ended';
    ELSEIF action = 'make' THEN
      SET until = CAST(SUBSTR(part, 2) AS DATETIME);
      SET ddl = CONCAT('ALTER TABLE `shop`.`outbox` ', 'REORGANIZE PARTITION pmax INTO (PARTITION p', DATE_FORMAT(until, '%Y%m%d'),
        ' VALUES LESS THAN (''', DATE(until) + INTERVAL 1 DAY, '''), PARTITION pmax VALUES LESS THAN (MAXVALUE))');
    ELSEIF action = 'spare' THEN
      SET ddl = 'CREATE TABLE `shop`.`outbox_spare` LIKE `shop`.`outbox`';
    ELSEIF action = 'flat' THEN
      IF EXISTS (SELECT 1 FROM `shop`.`outbox_spare`) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table is not empty';
      END IF;
      SET ddl = CONCAT('ALTER TABLE `shop`.`outbox_spare` ', 'COMMENT = ', QUOTE(CONCAT('cdc-relay: taken out of shop.outbox, until ', until, ', noted ', UTC_TIMESTAMP())), ' REMOVE PARTITIONING');
    ELSEIF action = 'exchange' THEN
      IF EXISTS (SELECT 1 FROM `shop`.`outbox_spare`) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table is not empty';
      ELSEIF NOT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = 'shop' AND table_name = 'outbox_spare' AND CAST(LEFT(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ')) AS BINARY) = CAST('cdc-relay: taken out of shop.outbox, until ' AS BINARY) AND CAST(SUBSTR(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ') + 1, 19) AS DATETIME) >= until - INTERVAL 10 MINUTE) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table was made for another partition';
      END IF;
      SET ddl = CONCAT('ALTER TABLE `shop`.`outbox` ', 'EXCHANGE PARTITION `', REPLACE(part, '`', '``'), '` WITH TABLE `shop`.`outbox_spare`');
    ELSEIF action = 'finish' THEN
      SELECT table_comment, CAST(LEFT(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ')) AS BINARY) = CAST('cdc-relay: taken out of shop.outbox, until ' AS BINARY) AND COALESCE(ABS(UNIX_TIMESTAMP(create_time) - TIMESTAMPDIFF(SECOND, '1970-01-01', SUBSTR(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ') + 28, 19))) <= 60, FALSE) OR COALESCE(create_options, '') LIKE '%partitioned%' INTO said, known
        FROM information_schema.tables WHERE table_schema = 'shop' AND table_name = 'outbox_spare';
      IF said IS NULL THEN
        SET ddl = NULL;
      ELSEIF NOT known THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1050, MESSAGE_TEXT = 'table outbox_spare is in the way';
      ELSEIF NOT EXISTS (SELECT 1 FROM `shop`.`outbox_spare`) THEN
        SET ddl = 'DROP TABLE `shop`.`outbox_spare`';
      ELSE
        SET until = CAST(SUBSTR(said, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ') + 1, 19) AS DATETIME);
        SET base = CONCAT('outbox_', IF(TIME(until) = 0, DATE_FORMAT(until - INTERVAL 1 DAY, '%Y%m%d'), DATE_FORMAT(until, 'max_%Y%m%d%H%i%s')));
        SET name = base;
        WHILE EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = 'shop' AND LOWER(table_name) = LOWER(name)) DO
          SET n = n + 1, name = CONCAT(base, '_', n);
        END WHILE;
        SET said = CONCAT('cdc-relay: taken out of shop.outbox, until ', until, ', noted ', UTC_TIMESTAMP());
        IF CHAR_LENGTH(@@GLOBAL.gtid_executed) < 1900 - CHAR_LENGTH(said) THEN
          SET said = CONCAT(said, ', GTID ', REPLACE(@@GLOBAL.gtid_executed, CHAR(10), ''));
        END IF;
        SET ddl = CONCAT('ALTER TABLE `shop`.`outbox_spare` ', 'RENAME TO ', '`shop`.', '`', REPLACE(name, '`', '``'), '`', ', COMMENT = ', QUOTE(said));
      END IF;
    ELSEIF action = 'merge' THEN
      SELECT partition_name INTO base FROM information_schema.partitions
        WHERE table_schema = 'shop' AND table_name = 'outbox' AND partition_ordinal_position = 1;
      SELECT partition_name INTO name FROM information_schema.partitions
        WHERE table_schema = 'shop' AND table_name = 'outbox' AND partition_ordinal_position = 2;
      IF name <> part THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not the second partition';
      END IF;
      SET ddl = CONCAT('ALTER TABLE `shop`.`outbox` ', 'REORGANIZE PARTITION `', REPLACE(base, '`', '``'), '`, `', REPLACE(name, '`', '``'), '` INTO (PARTITION `', REPLACE(name, '`', '``'), '` VALUES LESS THAN (''', DATE(until), '''))');
    ELSEIF action = 'drop' THEN
      SELECT table_name, CAST(SUBSTR(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ') + 1, 19) AS DATETIME) INTO name, until FROM information_schema.tables WHERE table_schema = 'shop' AND CAST(table_name AS BINARY) = CAST(part AS BINARY) AND CAST(LEFT(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ')) AS BINARY) = CAST('cdc-relay: taken out of shop.outbox, until ' AS BINARY);
      IF name IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no table that was taken out';
      ELSEIF COALESCE(until + INTERVAL 24 HOUR > UTC_TIMESTAMP(), TRUE) THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45024, MESSAGE_TEXT = 'it was a part of the table within the last 24 hours';
      END IF;
      SET ddl = CONCAT('DROP TABLE ', '`shop`.', '`', REPLACE(name, '`', '``'), '`');
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
END//
DELIMITER ;

-- To be run by an administrator, who grants rights and changes settings.

GRANT SELECT ON `shop`.`outbox` TO `relay`@`10.0.%`;

GRANT EXECUTE ON PROCEDURE `shop`.`outbox_maintain` TO `relay`@`10.0.%`;
