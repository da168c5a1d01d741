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

-- Open connections keep the old value until they reconnect.
SET PERSIST binlog_row_value_options = '';

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

-- To be run by an administrator, who grants rights and changes settings.

GRANT SELECT ON `shop`.`outbox` TO `relay`@`10.0.%`;
