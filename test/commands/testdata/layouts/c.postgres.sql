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
-- writer
INSERT INTO orders_outbox (event_id, tenant_id, topic, payload, created_at) VALUES (:uuid, :keyuuid, 'NAME', jsonb_build_object('type', :type::text, 'body', :json::jsonb), :at);
SELECT event_id, tenant_id, payload ->> 'type', payload FROM orders_outbox WHERE event_id = :uuid;
INSERT INTO billing_outbox (event_id, tenant_id, topic, payload, created_at) VALUES (:uuid, :keyuuid, 'NAME', jsonb_build_object('meta', jsonb_build_object('types', jsonb_build_array(:type::text)), 'body', :json::jsonb), :at);
SELECT event_id, tenant_id, payload #>> '{meta,types,0}', payload FROM billing_outbox WHERE event_id = :uuid;
INSERT INTO users_outbox (event_id, tenant_id, topic, payload, created_at) VALUES (:uuid, :keyuuid, 'NAME', :json, :at);
SELECT event_id, tenant_id || '/' || topic, 'UserChanged', payload FROM users_outbox WHERE event_id = :uuid;
-- poller
UPDATE orders_outbox SET locked_at = now(), attempts = attempts + 1
  WHERE id IN (SELECT id FROM orders_outbox WHERE published_at IS NULL AND locked_at IS NULL AND available_at <= now() ORDER BY sequence LIMIT 20 FOR UPDATE SKIP LOCKED);
UPDATE orders_outbox SET published_at = now(), locked_at = NULL WHERE locked_at IS NOT NULL;
DELETE FROM orders_outbox WHERE published_at < now();
UPDATE billing_outbox SET locked_at = now(), attempts = attempts + 1
  WHERE id IN (SELECT id FROM billing_outbox WHERE published_at IS NULL AND locked_at IS NULL AND available_at <= now() ORDER BY sequence LIMIT 20 FOR UPDATE SKIP LOCKED);
UPDATE billing_outbox SET published_at = now(), locked_at = NULL WHERE locked_at IS NOT NULL;
DELETE FROM billing_outbox WHERE published_at < now();
UPDATE users_outbox SET locked_at = now(), attempts = attempts + 1
  WHERE id IN (SELECT id FROM users_outbox WHERE published_at IS NULL AND locked_at IS NULL AND available_at <= now() ORDER BY sequence LIMIT 20 FOR UPDATE SKIP LOCKED);
UPDATE users_outbox SET published_at = now(), locked_at = NULL WHERE locked_at IS NOT NULL;
DELETE FROM users_outbox WHERE published_at < now();
