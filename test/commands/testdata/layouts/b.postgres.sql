CREATE TABLE outbox (
  id varchar(36) PRIMARY KEY, topic varchar(128) NOT NULL, routing_key varchar(100), aggregate_type varchar(100), aggregate_id varchar(128),
  event_metadata json NOT NULL, payload json NOT NULL, tenant_id varchar(64), schema_id varchar(128), schema_version int,
  occurred_at timestamptz NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), status varchar(10) NOT NULL DEFAULT 'NEW',
  retry_count int NOT NULL DEFAULT 0, retry_after timestamptz, error_message text);
-- rows
INSERT INTO outbox (id, topic, routing_key, aggregate_type, aggregate_id, event_metadata, payload, tenant_id, schema_id, schema_version, occurred_at)
  VALUES ('1', 'NAME', 'r-1', 'Order', '42', '{"event_type": "OrderPlaced", "trace": "00-1"}', '{"a": 1}', 'acme', 'urn:order', 3, '2026-01-02 03:04:05.6+02');
UPDATE outbox SET status = 'PUBLISHING';
INSERT INTO outbox (id, topic, event_metadata, payload, aggregate_id, occurred_at) VALUES ('2', 'NAME', '{"event_type": "Ping \u00e9"}', 'null', '7', '2026-01-02');
UPDATE outbox SET status = 'SENT' WHERE id = '1';
UPDATE outbox SET status = 'FAILED', retry_count = 1, retry_after = now(), error_message = 'x' WHERE id = '2';
DELETE FROM outbox WHERE status = 'SENT';
