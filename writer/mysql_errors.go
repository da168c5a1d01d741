package writer

import "reflect"

// mysqlDuplicate is ER_DUP_ENTRY, the error for a row that exists.
const mysqlDuplicate = 1062

// fixMySQL returns the fix for an error of MySQL or MariaDB by its number (MySQL manual, "Server Error Message Reference";
// MariaDB documentation, "MariaDB Error Codes").
func fixMySQL(number uint64, table string) string {
	switch number {
	case 1046, 1146: // ER_NO_DB_ERROR, ER_NO_SUCH_TABLE
		return "create it with 'cdc-relay setup', or name another with WithTable, or correct the database in the DSN"
	case 1054: // ER_BAD_FIELD_ERROR
		return "compare the table's columns with 'cdc-relay schema print'"
	case 1142, 1143: // ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR
		return "GRANT INSERT ON " + table + " to the user of this connection, with SkipDuplicate also SELECT (event_id), UPDATE (event_id)"
	case 1526: // ER_NO_PARTITION_FOR_GIVEN_VALUE
		return "add a partition for MAXVALUE as 'cdc-relay schema print' shows"
	case 1290, 1792, 1836: // ER_OPTION_PREVENTS_STATEMENT, ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ER_READ_ONLY_MODE
		return "open a read-write transaction on the primary"
	case 1153: // ER_NET_PACKET_TOO_LARGE
		return "raise the server's max_allowed_packet over twice the largest payload, or lower WithMaxPayload"
	case 1406: // ER_DATA_TOO_LONG
		return "compare the columns' lengths with 'cdc-relay schema print'"
	case 1366, 3988: // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD ("Incorrect string value"), ER_IMPOSSIBLE_STRING_CONVERSION
		return "use utf8mb4 for the table, as 'cdc-relay schema print' does, and for the connection (charset=utf8mb4 in the DSN)"
	case 3140, 3144, 3156, 4025: // ER_INVALID_JSON_TEXT, ER_INVALID_JSON_CHARSET and a like one; MariaDB's ER_CONSTRAINT_FAILED
		return "compare the table's columns with 'cdc-relay schema print'; for a payload of JSON use WithPayloadColumn"
	case 1020, 1205, 1213: // ER_CHECKREAD, ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK
		return "roll back and run the transaction again"
	default:
		return ""
	}
}

// mysqlNumber returns the number of the server's error in err's tree, or 0. It finds the field by name, because
// go-sql-driver's *MySQLError has no method for it and the writer does not import drivers.
func mysqlNumber(err error) uint64 {
	if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
		if number := v.FieldByName("Number"); number.IsValid() && number.Kind() == reflect.Uint16 {
			return number.Uint()
		}
	}
	switch err := err.(type) { //nolint:errorlint // walks the tree itself
	case interface{ Unwrap() error }:
		return mysqlNumber(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range err.Unwrap() {
			if n := mysqlNumber(e); n != 0 {
				return n
			}
		}
	}
	return 0
}
