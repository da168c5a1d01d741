-- To be run by an administrator, who grants rights and changes settings.

-- It needs a restart, in my.cnf under [mariadb]: log_bin = binlog
SELECT @@global.log_bin;

-- And for the next start, in my.cnf under [mariadb]: binlog_format = ROW
-- Open connections keep the old value until they reconnect.
SET GLOBAL binlog_format = ROW;

-- And for the next start, in my.cnf under [mariadb]: binlog_row_metadata = FULL
SET GLOBAL binlog_row_metadata = FULL;

-- If the user does not exist: CREATE USER `relay`@`10.0.%` IDENTIFIED BY '...'.
GRANT REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR ON *.* TO `relay`@`10.0.%`;

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
