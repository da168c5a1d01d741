package cdc

// Facts are what the catalog says of a table beyond the types of its columns.
type Facts struct {
	Columns map[string]ColumnFacts `json:"columns"`
	// Unique are the columns of each unique index on columns alone, without a condition.
	Unique [][]string `json:"unique"`
	// Generated are the columns that the WAL does not have.
	Generated []string `json:"-"`
}

// ColumnFacts are those of a column.
type ColumnFacts struct {
	NotNull bool `json:"not_null"`
	// Counter is whether the database numbers the rows in it.
	Counter bool `json:"counter"`
	// JSON is whether a check keeps a text that is not JSON out of it, which is MariaDB's type JSON.
	JSON bool `json:"json"`
	// Length is the most characters of a text; 0 is no limit that is known.
	Length int64 `json:"length"`
	// Default is the expression, as the catalog has it; "" for none or NULL.
	Default string `json:"default"`
}
