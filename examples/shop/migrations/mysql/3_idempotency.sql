-- The response to each request with an idempotency key, stored in the transaction of its effect.
CREATE TABLE IF NOT EXISTS idempotency_keys (
  scope VARBINARY(255) NOT NULL,
  idempotency_key VARBINARY(255) NOT NULL,
  request_hash VARBINARY(32) NOT NULL,
  status INT NOT NULL,
  headers LONGBLOB NOT NULL,
  body LONGBLOB NOT NULL,
  created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (scope, idempotency_key),
  KEY idempotency_keys_order (created_at)
) ENGINE = InnoDB;
