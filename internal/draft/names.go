package draft

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// kinds are the types that a part may be made of.
type kinds []cdc.Type

func ids() kinds {
	return kinds{cdc.TypeUUID, cdc.TypeText, cdc.TypeChar, cdc.TypeInteger, cdc.TypeDecimal}
}
func texts() kinds  { return kinds{cdc.TypeText, cdc.TypeChar} }
func words() kinds  { return append(texts(), cdc.TypeInteger) }
func values() kinds { return kinds{cdc.TypeJSON, cdc.TypeBytes, cdc.TypeText} }
func times() kinds  { return kinds{cdc.TypeTime, cdc.TypeLocalTime} }

// known is how a part is found.
type known struct {
	// names are those of columns, the likeliest first, in the form of [folded].
	names string
	kinds kinds
	// means is what the part is.
	means string
}

// parts says how each part is found. The names are those of the native table, of Debezium's outbox event router, of polling publishers
// and of frameworks (Axon, Eventuate, MassTransit, Spring Modulith, CAP, Watermill).
func parts() [outbox.Roles]known {
	return [outbox.Roles]known{
		outbox.EventID: {"eventid eventuuid eventidentifier messageid messageuuid msgid id uuid guid outboxid", ids(), "consumers deduplicate by it"},
		outbox.AggregateType: {
			"aggregatetype aggregatename aggregate entitytype entityname resourcetype objecttype streamtype", texts(), "the topic follows from it, see routes",
		},
		outbox.AggregateID: {
			"aggregateid aggregateidentifier aggregaterootid aggregatekey entityid resourceid objectid streamid", ids(), "the key, so that its events stay in order",
		},
		outbox.EventType: {"eventtype eventname messagetype msgtype payloadtype recordtype type typename kind event name", words(), "what happened"},
		outbox.TenantID:  {"tenantid tenant tenantuuid tenantkey organizationid organisationid orgid", ids(), "the tenant"},
		outbox.Topic:     {"topic topicname kafkatopic destinationtopic targettopic destination", texts(), "the topic"},
		outbox.PartitionKey: {
			"partitionkey routingkey messagekey msgkey recordkey eventkey kafkakey orderingkey shardkey key", ids(), "the key, whose events stay in order",
		},
		outbox.ContentType:   {"contenttype datacontenttype payloadcontenttype mimetype mediatype", texts(), "the payload's media type"},
		outbox.SchemaID:      {"schemaid schemauri schemaname dataschema schema", words(), "the payload's schema"},
		outbox.SchemaVersion: {"schemaversion payloadversion payloadrevision eventversion version", words(), "the version of the payload's schema"},
		outbox.Headers: {
			"headers header eventheaders messageheaders msgheaders eventmetadata metadata meta attributes properties", kinds{cdc.TypeJSON, cdc.TypeText}, "its members are headers",
		},
		outbox.Payload: {
			"payload eventpayload messagepayload eventdata data body messagebody eventbody serializedevent event message msg content value json", values(), "the value; for NULL see null_payload",
		},
		outbox.OccurredAt: {"occurredat occurredon occurred eventtime eventtimestamp eventdate happenedat raisedat emittedat timestamp ts", times(), "when it happened"},
		outbox.CreatedAt: {
			"createdat createdon created createddate createdtime createtime creationtime creationdate datecreated insertedat inserttime addedat added recordedat publicationdate",
			times(), "when the row was written",
		},
	}
}

// debezium are the columns that Debezium's outbox event router reads by default.
func debezium() map[outbox.Role]string {
	return map[outbox.Role]string{
		outbox.EventID: "id", outbox.AggregateType: "aggregatetype", outbox.AggregateID: "aggregateid", outbox.EventType: "type", outbox.Payload: "payload",
	}
}

// states are words in the names of columns in which a poller keeps the state of delivery.
const states = " status state attempt attempts retry retries lock locked lease claimed worker processed processing published publishing sent sending" +
	" dispatched delivered done completed completion handled failed failure failures error errors available visible next last updated expires" +
	" blocked blacklisted "

// plans are words in the names of times that are ahead of the row, and deeds those in names of times that, unless they can be NULL, are
// those of the row.
const (
	plans = " deliver publish send process dispatch run execute enqueue schedule scheduled due deadline eta delay delayed until after before start" +
		" starts end ends valid expire expires expiry expiration timeout ttl retain "
	deeds = " published sent dispatched "
)

// isState reports whether a column holds the state of delivery.
func isState(column string) bool { return hasWord(column, states) }

// isTimeOf reports whether a time's name has one of the words, or is a single word that begins with one: PostgreSQL folds nextAttemptTime without quotes.
func isTimeOf(column, words string) bool {
	const shortest = 4
	return hasWord(column, words) || len(cut(column)) == 1 && slices.ContainsFunc(strings.Fields(words), func(word string) bool {
		return len(word) >= shortest && strings.HasPrefix(folded(column), word)
	})
}

// hasWord reports whether one of the words is in a column's name.
func hasWord(column, words string) bool {
	return slices.ContainsFunc(cut(column), func(word string) bool { return strings.Contains(words, " "+word+" ") })
}

// folded is a name without what spellings differ in: event_id, eventId and EVENT_ID are one.
func folded(column string) string { return strings.Join(cut(column), "") }

// cut returns the words of a name in lower case.
func cut(column string) []string {
	var b strings.Builder
	lower := false
	for _, r := range column {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return r == '_' || r == '-' || r == ' ' })
}
