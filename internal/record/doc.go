// Package record makes records of rows. Each format has an [Encoder]. It is pure: no context, no I/O, no logging and no metrics.
//
// A [Shape] says which format a table has, and what else its records are made of. A record of the format cloudevents follows the Kafka protocol binding of CloudEvents 1.0.2 in binary content mode:
//
//	value      the payload's bytes, unchanged; NULL in the native table is a null value (a tombstone).
//	           bytea is its bytes, text and JSON are the text that the database prints, in UTF-8
//	timestamp  the sink's: when it is published
//
// and these headers, in this order. Values are UTF-8 text. A header whose column is not in the table, is
// NULL or is empty is left out; those marked * are never left out: a row without them is malformed.
//
//	ce_id *                event_id; a uuid in its canonical form, lower case
//	ce_specversion *       1.0
//	ce_source *            the setting ce_source, by default /<database>/<table>
//	ce_type *              event_type
//	ce_subject             aggregate_id
//	ce_time                occurred_at: RFC 3339 in UTC, to the microsecond, without trailing zeros (a
//	                       mapped column of text holds RFC 3339 already and stays as it is)
//	content-type           content_type
//	ce_aggregatetype       aggregate_type
//	ce_tenant              tenant_id
//	ce_dataschema          schema_id
//	ce_dataschemaversion   schema_version
//	ce_sequence            16 hex digits, "-", 8 hex digits: the LSN of the commit record and the row's
//	                       ordinal in its transaction, from 0. Sorting these texts gives commit order
//	                       within one database's history. PostgreSQL only
//	ce_committime          when the transaction committed, by the database's clock, written as ce_time
//	...                    the members of headers, in the order that the database prints them
//
// Headers that are configured stand before the members of headers.
//
// A member of headers keeps its name and its bytes: traceparent arrives as it was stored. A string is
// its own text, null is a header with a null value, and anything else is its JSON text. Names that start
// with ce_, the name content-type (both in any case), that of a header that is configured, and the empty name make the row malformed, unless
// [Members] says otherwise.
//
// A record of the format cloudevents-json has the same attributes in its value, a JSON object, and one of the format plain has none.
package record
