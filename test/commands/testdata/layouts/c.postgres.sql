CREATE TABLE orders_outbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), sequence bigserial, event_id uuid NOT NULL UNIQUE, tenant_id uuid NOT NULL, topic text NOT NULL,
  payload jsonb NOT NULL, created_at timestamptz NOT NULL, published_at timestamptz, attempts int NOT NULL DEFAULT 0,
  available_at timestamptz NOT NULL DEFAULT now(), locked_at timestamptz, last_error text);
CREATE TABLE billing_outbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), sequence bigserial, event_id uuid NOT NULL UNIQUE, tenant_id uuid NOT NULL, topic text NOT NULL,
  payload jsonb NOT NULL, created_at timestamptz NOT NULL, published_at timestamptz, attempts int NOT NULL DEFAULT 0,
  available_at timestamptz NOT NULL DEFAULT now(), locked_at timestamptz, last_error text);
CREATE TABLE users_outbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), sequence bigserial, event_id uuid NOT NULL UNIQUE, tenant_id uuid NOT NULL, topic text NOT NULL,
  payload jsonb NOT NULL, created_at timestamptz NOT NULL, published_at timestamptz, attempts int NOT NULL DEFAULT 0,
  available_at timestamptz NOT NULL DEFAULT now(), locked_at timestamptz, last_error text);
-- rows
INSERT INTO orders_outbox (event_id, tenant_id, topic, payload, created_at)
  VALUES ('0198c0de-0000-7000-8000-000000000001', '0198c0de-0000-7000-8000-00000000ac3e', 'NAME', '{"type": "OrderPlaced", "total": 1}', '2026-01-02 03:04:05+00');
UPDATE orders_outbox SET locked_at = now(), attempts = attempts + 1;
INSERT INTO billing_outbox (event_id, tenant_id, topic, payload, created_at)
  VALUES ('0198c0de-0000-7000-8000-000000000002', '0198c0de-0000-7000-8000-00000000ac3e', 'NAME', '{"meta": {"types": ["Paid", "Closed"]}}', '2026-01-02 03:04:05+00');
UPDATE billing_outbox SET locked_at = now(), attempts = attempts + 1;
INSERT INTO users_outbox (event_id, tenant_id, topic, payload, created_at)
  VALUES ('0198c0de-0000-7000-8000-000000000003', '0198c0de-0000-7000-8000-00000000ac3e', 'NAME', '{"name": "x"}', '2026-01-02 03:04:05+00');
UPDATE users_outbox SET locked_at = now(), attempts = attempts + 1;
UPDATE orders_outbox SET published_at = now();
