package writer

// maxRows is the maximum number of rows in an INSERT. As VALUES they have 57344 parameters; MySQL and MariaDB allow 65535
// in a prepared statement.
const maxRows = 4096

// columnCount is the number of parameters of a row of VALUES.
const columnCount = 14

// inserts builds the INSERTs of a dialect, with arguments that every driver of database/sql accepts. It retains neither
// rows nor arguments.
type inserts interface {
	// one inserts one row; its text is always the same.
	one(r row) (query string, args []any)
	// many inserts 1 to maxRows rows.
	many(rows []row) (query string, args []any)
}

// insertInto returns the start of every INSERT. The columns are in the order of row's fields.
func insertInto(table string) string {
	return "INSERT INTO " + table + " (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, " +
		"partition_key, content_type, schema_id, schema_version, headers, payload, occurred_at, created_at)"
}

// appendTexts appends the arguments between event_id and payload, which are the same in all dialects.
func appendTexts(args []any, r *row) []any {
	var contentType, version any = contentTypeJSON, nil
	if r.ContentType != contentTypeJSON { // the constant costs no allocation
		contentType = r.ContentType
	}
	if r.SchemaVersion != 0 {
		version = int64(r.SchemaVersion)
	}
	return append(args,
		r.AggregateType, r.AggregateID, r.EventType,
		nullText(r.TenantID), nullText(r.Topic), nullText(r.PartitionKey), contentType,
		nullText(r.SchemaID), version, nullText(r.Headers))
}

func nullText(s string) any {
	if s == "" {
		return nil
	}
	return s
}
