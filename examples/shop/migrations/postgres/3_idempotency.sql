-- The response to each request with an idempotency key, stored in the transaction of its effect.
CREATE TABLE IF NOT EXISTS idempotency_keys (
  scope text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  request_hash bytea NOT NULL,
  status int NOT NULL,
  headers text NOT NULL,
  body bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (scope, idempotency_key)
);

CREATE INDEX IF NOT EXISTS idempotency_keys_order ON idempotency_keys (created_at);
