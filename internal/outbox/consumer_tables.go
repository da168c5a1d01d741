package outbox

import "strings"

// InboxTables returns the script that creates the tables of package inbox in a consumer's database.
//
// They are not partitioned: a unique key must hold the partition column, so an ID would be unique only within a day.
func InboxTables(mysql bool) Script {
	return consumerTables("create_inbox", mysql, []consumerTable{
		{
			comment: "The messages that each consumer has handled. Rows are inserted in the transaction that does the work.",
			name:    "inbox",
			columns: `  consumer {text:128} NOT NULL,
  source {text:512} NOT NULL,
  message_id {text:255} NOT NULL,
  handled_at {time} NOT NULL DEFAULT {now},
  PRIMARY KEY (consumer, source, message_id)`,
			index: "consumer, handled_at",
		},
		{
			comment: "Messages that could not be handled, and those of the same keys after them, which have no error. Each has a row in inbox, too, until that is purged.",
			name:    "inbox_parked",
			columns: `  consumer {text:128} NOT NULL,
  source {text:512} NOT NULL,
  message_id {text:255} NOT NULL,
  topic {text:249} NOT NULL,
  topic_partition int NOT NULL,
  topic_offset bigint NOT NULL,
  key_hash {bytes:32} NOT NULL,
  event_type {text:255} NOT NULL,
  aggregate_type {text:255} NOT NULL,
  record {blob} NOT NULL,
  error {long},
  attempts int NOT NULL,
  retry boolean NOT NULL DEFAULT false,
  parked_at {time} NOT NULL DEFAULT {now},
  PRIMARY KEY (consumer, source, message_id)`,
			index: "consumer, topic, topic_partition, key_hash, topic_offset",
		},
	})
}

// IdempotencyTable returns the script that creates the table of package idempotency.
func IdempotencyTable(mysql bool) Script {
	return consumerTables("create_idempotency_keys", mysql, []consumerTable{{
		comment: "The response to each request with an idempotency key, stored in the transaction of its effect.",
		name:    "idempotency_keys",
		columns: `  scope {text:255} NOT NULL,
  idempotency_key {text:255} NOT NULL,
  request_hash {bytes:32} NOT NULL,
  status int NOT NULL,
  headers {long} NOT NULL,
  body {blob} NOT NULL,
  created_at {time} NOT NULL DEFAULT {now},
  PRIMARY KEY (scope, idempotency_key)`,
		index: "created_at",
	}})
}

type consumerTable struct{ comment, name, columns, index string }

// consumerTables writes the tables in a dialect. Keys are bytes: a collation would make different IDs equal. Only
// PostgreSQL's CREATE TABLE has no index in it.
func consumerTables(name string, mysql bool, tables []consumerTable) Script {
	s := Script{Name: name}
	for _, t := range tables {
		create := Statement{Comment: t.comment, SQL: "CREATE TABLE IF NOT EXISTS " + t.name + " (\n"}
		if mysql {
			create.SQL += mysqlTypes(t.columns) + ",\n  KEY " + t.name + "_order (" + t.index + ")\n) ENGINE = InnoDB"
			s.Up = append(s.Up, create)
		} else {
			create.SQL += postgresTypes(t.columns) + "\n)"
			s.Up = append(s.Up, create, Statement{SQL: "CREATE INDEX IF NOT EXISTS " + t.name + "_order ON " + t.name + " (" + t.index + ")"})
		}
		s.Down = append(s.Down, Statement{SQL: "DROP TABLE IF EXISTS " + t.name})
	}
	return s
}

func mysqlTypes(columns string) string {
	r := strings.NewReplacer("{text:", "VARBINARY(", "{bytes:", "VARBINARY(", "{blob}", "LONGBLOB", "{long}", "LONGBLOB",
		"{time}", "TIMESTAMP(6)", "{now}", "CURRENT_TIMESTAMP(6)", "}", ")", "int ", "INT ", "bigint ", "BIGINT ", "boolean ", "BOOLEAN ")
	return r.Replace(columns)
}

func postgresTypes(columns string) string {
	r := strings.NewReplacer("{blob}", "bytea", "{long}", "text", "{time}", "timestamptz", "{now}", "now()",
		"{text:128}", `text COLLATE "C"`, "{text:249}", `text COLLATE "C"`, "{text:255}", `text COLLATE "C"`, "{text:512}", `text COLLATE "C"`, "{bytes:32}", "bytea")
	return r.Replace(columns)
}
