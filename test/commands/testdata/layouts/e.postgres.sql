CREATE TABLE outbox_event (
  event_id uuid PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL, payload text NOT NULL,
  headers text, occurred_at timestamptz NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'NEW',
  attempts int NOT NULL DEFAULT 0, next_retry_at timestamptz, sent_at timestamptz, locked_by text, locked_until timestamptz, last_error text,
  updated_at timestamptz);
-- rows
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, headers, occurred_at)
  VALUES ('0198c0de-0000-7000-8000-000000000001', 'Order', '42', 'com.example.OrderPlaced', 'not JSON', '{"tenant":"acme","n":1}', '2026-01-02 03:04:05+00');
UPDATE outbox_event SET status = 'SENDING', locked_by = 'w1', locked_until = now(), attempts = 1, updated_at = now();
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at)
  VALUES ('0198c0de-0000-7000-8000-000000000002', 'Order', '43', 'com.example.OrderClosed', '', '2026-01-02 03:04:06+00');
UPDATE outbox_event SET status = 'SENT', sent_at = now(), locked_by = NULL, updated_at = now();
DELETE FROM outbox_event WHERE status = 'SENT';
