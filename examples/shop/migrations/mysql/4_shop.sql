CREATE TABLE IF NOT EXISTS orders (
  id VARCHAR(36) PRIMARY KEY,
  customer VARCHAR(255) NOT NULL,
  item VARCHAR(255) NOT NULL,
  quantity INT NOT NULL,
  status VARCHAR(20) NOT NULL
) ENGINE = InnoDB;

-- The consumer's: how many pieces of each item are reserved for orders.
CREATE TABLE IF NOT EXISTS stock (
  item VARCHAR(255) PRIMARY KEY,
  reserved INT NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO stock VALUES ('book', 0), ('pen', 0);
