-- +goose Up
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

-- +goose Down
-- This loses the events that are not published yet.
DROP TABLE IF EXISTS `shop`.`outbox`;
