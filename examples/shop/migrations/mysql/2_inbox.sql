-- The messages that each consumer has handled. Rows are inserted in the transaction that does the work.
CREATE TABLE IF NOT EXISTS inbox (
  consumer VARBINARY(128) NOT NULL,
  source VARBINARY(512) NOT NULL,
  message_id VARBINARY(255) NOT NULL,
  handled_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (consumer, source, message_id),
  KEY inbox_order (consumer, handled_at)
) ENGINE = InnoDB;

-- Messages that could not be handled, and those of the same keys after them, which have no error. Each has a row in inbox, too, until that is purged.
CREATE TABLE IF NOT EXISTS inbox_parked (
  consumer VARBINARY(128) NOT NULL,
  source VARBINARY(512) NOT NULL,
  message_id VARBINARY(255) NOT NULL,
  topic VARBINARY(249) NOT NULL,
  topic_partition INT NOT NULL,
  topic_offset BIGINT NOT NULL,
  key_hash VARBINARY(32) NOT NULL,
  event_type VARBINARY(255) NOT NULL,
  aggregate_type VARBINARY(255) NOT NULL,
  record LONGBLOB NOT NULL,
  error LONGBLOB,
  attempts INT NOT NULL,
  retry BOOLEAN NOT NULL DEFAULT false,
  parked_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (consumer, source, message_id),
  KEY inbox_parked_order (consumer, topic, topic_partition, key_hash, topic_offset)
) ENGINE = InnoDB;
