CREATE TABLE IF NOT EXISTS orders (
  id text PRIMARY KEY,
  customer text NOT NULL,
  item text NOT NULL,
  quantity int NOT NULL,
  status text NOT NULL
);

-- The consumer's: how many pieces of each item are reserved for orders.
CREATE TABLE IF NOT EXISTS stock (
  item text PRIMARY KEY,
  reserved int NOT NULL
);

INSERT INTO stock VALUES ('book', 0), ('pen', 0) ON CONFLICT DO NOTHING;
