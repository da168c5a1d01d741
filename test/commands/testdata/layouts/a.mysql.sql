CREATE TABLE outbox_events (
  id char(36) PRIMARY KEY, aggregate_type varchar(100) NOT NULL, aggregate_id varchar(255) NOT NULL, event_type varchar(100) NOT NULL,
  tenant_id varchar(100), payload json NOT NULL, version int NOT NULL DEFAULT 1, status varchar(20) NOT NULL DEFAULT 'CREATED',
  created_at datetime NOT NULL, published_at datetime, retry_count int NOT NULL DEFAULT 0, last_retry_at datetime, error_message text, KEY (status, created_at));
-- rows
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, tenant_id, payload, created_at)
  VALUES ('0198c0de-0000-7000-8000-000000000001', 'Order', '42', 'OrderPlaced', 'acme', '{"note": "Grüße", "total": 1.5}', '2026-01-02 03:04:05');
UPDATE outbox_events SET status = 'PUBLISHED', published_at = now();
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, version, created_at)
  VALUES ('legacy-2', 'Invoice', '7', 'InvoicePaid', '[]', 2, '2026-01-02 03:04:06');
UPDATE outbox_events SET status = 'FAILED', retry_count = retry_count + 1, last_retry_at = now(), error_message = 'timeout' WHERE id = 'legacy-2';
DELETE FROM outbox_events WHERE status = 'PUBLISHED';
