-- The messages that each consumer has handled. Rows are inserted in the transaction that does the work.
CREATE TABLE IF NOT EXISTS inbox (
  consumer text COLLATE "C" NOT NULL,
  source text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  handled_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, source, message_id)
);

CREATE INDEX IF NOT EXISTS inbox_order ON inbox (consumer, handled_at);

-- Messages that could not be handled, and those of the same keys after them, which have no error. Each has a row in inbox, too, until that is purged.
CREATE TABLE IF NOT EXISTS inbox_parked (
  consumer text COLLATE "C" NOT NULL,
  source text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  topic text COLLATE "C" NOT NULL,
  topic_partition int NOT NULL,
  topic_offset bigint NOT NULL,
  key_hash bytea NOT NULL,
  event_type text COLLATE "C" NOT NULL,
  aggregate_type text COLLATE "C" NOT NULL,
  record bytea NOT NULL,
  error text,
  attempts int NOT NULL,
  retry boolean NOT NULL DEFAULT false,
  parked_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, source, message_id)
);

CREATE INDEX IF NOT EXISTS inbox_parked_order ON inbox_parked (consumer, topic, topic_partition, key_hash, topic_offset);
