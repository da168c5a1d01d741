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
-- writer
INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, headers, occurred_at)
  VALUES (:uuid, 'Order', :key, :type, :text, '{"tenant":"acme"}', :at);
SELECT event_id, aggregate_id, event_type, payload FROM outbox_event WHERE event_id = :uuid;
-- poller
UPDATE outbox_event SET status = 'SENDING', locked_by = :worker, locked_until = now() + interval '1 minute', attempts = attempts + 1, updated_at = now()
  WHERE event_id IN (SELECT event_id FROM outbox_event WHERE status IN ('NEW', 'FAILED') ORDER BY occurred_at LIMIT 20 FOR UPDATE SKIP LOCKED);
UPDATE outbox_event SET status = 'FAILED', next_retry_at = now(), last_error = 'timeout', locked_by = NULL
  WHERE event_id IN (SELECT event_id FROM outbox_event WHERE locked_by = :worker AND attempts = 1 ORDER BY occurred_at LIMIT 3 FOR UPDATE SKIP LOCKED);
UPDATE outbox_event SET status = 'SENT', sent_at = now(), locked_by = NULL, updated_at = now() WHERE locked_by = :worker;
DELETE FROM outbox_event WHERE status = 'SENT';
