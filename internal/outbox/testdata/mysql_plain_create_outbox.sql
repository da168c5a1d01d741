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
  PRIMARY KEY (event_id, created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
PARTITION BY RANGE COLUMNS (created_at) (
  PARTITION p20260102 VALUES LESS THAN ('2026-01-03'),
  PARTITION p20260103 VALUES LESS THAN ('2026-01-04'),
  PARTITION p20260104 VALUES LESS THAN ('2026-01-05'),
  PARTITION pmax VALUES LESS THAN (MAXVALUE)
);

-- If the table existed: daily partitions (UTC) to 2026-01-04, split from the last partition.
-- Writers wait for it, briefly if the last partition is empty.
SET SESSION group_concat_max_len = 1000000;

SET @cdc_relay_ddl = (
  WITH RECURSIVE days (day) AS (
    SELECT DATE '2026-01-02' UNION ALL SELECT day + INTERVAL 1 DAY FROM days WHERE day < '2026-01-04'
  )
  SELECT COALESCE(CONCAT('ALTER TABLE `shop`.`outbox` REORGANIZE PARTITION pmax INTO (',
    GROUP_CONCAT('PARTITION p', DATE_FORMAT(day, '%Y%m%d'), ' VALUES LESS THAN (''', day + INTERVAL 1 DAY, ''')' ORDER BY day SEPARATOR ', '),
    ', PARTITION pmax VALUES LESS THAN (MAXVALUE))'), 'DO 0')
  FROM days WHERE day >= (
    SELECT COALESCE(MAX(TRIM(BOTH '''' FROM partition_description)), '0001-01-01') FROM information_schema.partitions
    WHERE table_schema = 'shop' AND table_name = 'outbox' AND partition_description <> 'MAXVALUE'
  )
);

PREPARE cdc_relay_ddl FROM @cdc_relay_ddl;

EXECUTE cdc_relay_ddl;

DEALLOCATE PREPARE cdc_relay_ddl;
