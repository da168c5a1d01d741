CREATE TABLE outbox_event (
  id bigserial PRIMARY KEY, event_id varchar(36) NOT NULL UNIQUE, aggregate_type varchar(64), aggregate_id varchar(128),
  event_type varchar(128) NOT NULL, tenant_id varchar(64), payload json NOT NULL, headers json, status smallint NOT NULL DEFAULT 0,
  attempts int NOT NULL DEFAULT 0, available_at timestamp, done_at timestamp, last_error text, locked_by varchar(64),
  locked_at timestamp, created_at timestamp NOT NULL);
-- rows
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, tenant_id, payload, headers, created_at)
  VALUES ('01J9ZQ4T8V6W2X3Y4Z5A6B7C8D', 'Order', '42', 'order.placed', 'acme', '{"n": 1}', '{"traceparent": "00-1"}', '2026-01-02 03:04:05.678');
UPDATE outbox_event SET locked_by = 'w1', locked_at = now(), attempts = attempts + 1;
INSERT INTO outbox_event (event_id, event_type, payload, created_at) VALUES ('01J9ZQ4T8V6W2X3Y4Z5A6B7C8E', 'ping', 'true', '2026-01-02');
UPDATE outbox_event SET status = 1, done_at = now(), locked_by = NULL, locked_at = NULL WHERE attempts > 0;
UPDATE outbox_event SET status = 3, last_error = 'x' WHERE attempts = 0;
DELETE FROM outbox_event WHERE status = 1;
