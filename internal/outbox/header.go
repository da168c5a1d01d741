package outbox

import "strings"

// HeaderPrefix starts the names of the headers that carry CloudEvents attributes
// (Kafka protocol binding for CloudEvents 1.0.2, section 3.2.3).
const HeaderPrefix = "ce_"

// HeaderContentType is the header that carries the payload's media type.
const HeaderContentType = "content-type"

// ReservedHeader reports whether the relay reserves a header name: every name that starts with ce_, and content-type, in
// any case.
func ReservedHeader[S string | []byte](name S) bool {
	if len(name) == 0 || name[0]|0x20 != 'c' { // both start with it
		return false
	}
	prefix := name[:min(len(name), len(HeaderPrefix))] // a conversion of a long name would allocate
	return strings.EqualFold(string(prefix), HeaderPrefix) || len(name) == len(HeaderContentType) && strings.EqualFold(string(name), HeaderContentType)
}
