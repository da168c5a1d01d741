package draft_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/draft"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// table makes a table of columns such as "id:uuid!". With ! a unique index has the column alone, with ? it can be NULL, with #9 it has at most 9
// characters, with = a default follows, and unique(a,b) is a unique index.
func table(columns string) (*cdc.Table, *cdc.Facts) {
	types := map[string]cdc.Type{
		"text": cdc.TypeText, "char": cdc.TypeChar, "bytes": cdc.TypeBytes, "uuid": cdc.TypeUUID, "int": cdc.TypeInteger, "bool": cdc.TypeBool,
		"json": cdc.TypeJSON, "time": cdc.TypeTime, "local": cdc.TypeLocalTime, "foreign": cdc.TypeText, "checked": cdc.TypeText, "serial": cdc.TypeInteger,
	}
	t, f := &cdc.Table{Schema: "shop", Name: "events"}, &cdc.Facts{Columns: map[string]cdc.ColumnFacts{}}
	for column := range strings.FieldsSeq(columns) {
		if list, is := strings.CutPrefix(column, "unique("); is {
			f.Unique = append(f.Unique, strings.Split(strings.TrimSuffix(list, ")"), ","))
			continue
		}
		column, byDefault, _ := strings.Cut(column, "=")
		column, length, _ := strings.Cut(column, "#")
		n, _ := strconv.ParseInt(length, 10, 64)
		column, unique := strings.CutSuffix(column, "!")
		column, null := strings.CutSuffix(column, "?")
		name, kind, _ := strings.Cut(column, ":")
		c := cdc.Column{Name: name, Type: types[kind]}
		if kind == "foreign" {
			c.Form = cdc.FormForeign
		}
		if unique {
			f.Unique = append(f.Unique, []string{name})
		}
		t.Columns = append(t.Columns, c)
		f.Columns[name] = cdc.ColumnFacts{NotNull: !null, Length: n, Default: byDefault, JSON: kind == "checked", Counter: kind == "serial"}
	}
	return t, f
}

// brief is what a table became: "event_id=id type={const: x} | status".
func brief(t *draft.Table) string {
	var words []string
	for _, p := range t.Parts {
		what := p.Column
		if what == "" {
			what = p.Const + p.JSON + p.Path + p.Template
		}
		if p.Role.String() != what {
			what = p.Role.String() + "=" + what
		}
		words = append(words, what)
	}
	if t.Null {
		words = append(words, "null")
	}
	if t.Debezium {
		words = append(words, "debezium")
	}
	return strings.Join(words, " ") + " | " + strings.Join(t.State, " ") + " | " + strings.Join(t.Unused, " ")
}

func TestPartsOfTablesInUse(t *testing.T) {
	for _, c := range []struct{ name, columns, want string }{
		{
			"A",
			"id:char aggregate_type:text aggregate_id:text event_type:text tenant_id:text payload:json version:int status:text created_at:local published_at:local retry_count:int last_retry_at:local error_message:text",
			"event_id=id aggregate_type aggregate_id event_type tenant_id schema_version=version payload occurred_at=created_at | status published_at retry_count last_retry_at error_message | ",
		},
		{
			"B",
			"id:text topic:text routing_key:text aggregate_type:text aggregate_id:text event_metadata:json payload:json tenant_id:text schema_id:text schema_version:int occurred_at:time created_at:time status:text retry_count:int retry_after:time error_message:text",
			"event_id=id aggregate_type aggregate_id event_type=events tenant_id topic partition_key=routing_key schema_id schema_version headers=event_metadata payload occurred_at created_at | status retry_count retry_after error_message | ",
		},
		{
			"C",
			"id:uuid sequence:int event_id:uuid tenant_id:uuid topic:text payload:json created_at:time published_at:time attempts:int available_at:time locked_at:time last_error:text",
			"event_id event_type=events tenant_id topic partition_key=tenant_id payload occurred_at=created_at | published_at attempts available_at locked_at last_error | id sequence",
		},
		{
			"D",
			"id:int event_id:text aggregate_type:text aggregate_id:text event_type:text tenant_id:text payload:json headers:json status:int attempts:int available_at:local done_at:local last_error:text locked_by:text locked_at:local created_at:local",
			"event_id aggregate_type aggregate_id event_type tenant_id headers payload occurred_at=created_at | status attempts available_at done_at last_error locked_by locked_at | id",
		},
		{
			"E",
			"event_id:uuid aggregate_type:text aggregate_id:text event_type:text payload:text headers:text occurred_at:time created_at:time status:text attempts:int next_retry_at:time sent_at:time locked_by:text locked_until:time last_error:text updated_at:time",
			"event_id aggregate_type aggregate_id event_type headers payload occurred_at created_at | status attempts next_retry_at sent_at locked_by locked_until last_error updated_at | ",
		},
		{
			"Debezium", "id:uuid aggregatetype:text aggregateid:text type:text payload:json",
			"event_id=id aggregate_type=aggregatetype aggregate_id=aggregateid event_type=type payload debezium |  | ",
		},
		{
			"Axon",
			"global_index:int event_identifier:text aggregate_identifier:text sequence_number:int type:text meta_data:bytes payload:bytes payload_revision:text payload_type:text time_stamp:text",
			"event_id=event_identifier aggregate_id=aggregate_identifier event_type=payload_type schema_version=payload_revision payload |  | global_index sequence_number type meta_data time_stamp",
		},
		{
			"Eventuate", "id:text destination:text headers:text payload:text published:int creation_time:int",
			"event_id=id event_type=events topic=destination headers payload | published | creation_time",
		},
		{
			"Spring Modulith", "id:uuid listener_id:text event_type:text serialized_event:text publication_date:time completion_date:time",
			"event_id=id event_type payload=serialized_event occurred_at=publication_date | completion_date | listener_id",
		},
		{
			"Watermill", "offset:int uuid:char created_at:local payload:json metadata:json transaction_id:text",
			"event_id=uuid event_type=events headers=metadata payload occurred_at=created_at |  | offset transaction_id",
		},
		{
			"camel case", "Id:uuid EventType:text AggregateId:text OccurredOn:time Data:json ProcessedAt:time",
			"event_id=Id aggregate_id=AggregateId event_type=EventType payload=Data occurred_at=OccurredOn | ProcessedAt | ",
		},
		{
			"only types", "a:bool no:uuid what:json raised:local status:text",
			"event_id=no event_type=events payload=what occurred_at=raised | status | a",
		},
		{"an unknown character set", "id:int body:foreign data:text", "event_id=shop.events-${id} event_type=events payload=data |  | body"},
		{"an ID that is no name of a template", "id}:int! data:text", "event_id=id} event_type=events payload=data |  | "},
		{
			"MassTransit",
			"SequenceNumber:serial! EnqueueTime:time? SentTime:time Headers:text? Properties:text? OutboxId:uuid? MessageId:uuid ContentType:text#256 MessageType:text Body:text DestinationAddress:text?#256 ExpirationTime:time? unique(OutboxId,SequenceNumber)",
			"event_id=MessageId event_type=MessageType content_type=ContentType headers=Headers payload=Body occurred_at=SentTime |  | SequenceNumber EnqueueTime Properties OutboxId DestinationAddress ExpirationTime",
		},
		{
			"Wolverine", "id:uuid! owner_id:int destination:text deliver_by:time? body:bytes attempts:int? message_type:text",
			"event_id=id event_type=message_type topic=destination payload=body | attempts | owner_id deliver_by",
		},
		{
			"NServiceBus on MariaDB", "MessageId:text!#768 Dispatched:int DispatchedAt:local? PersistenceVersion:text#23 Operations:checked#4294967295",
			"event_id=MessageId event_type=events payload=Operations | Dispatched DispatchedAt | PersistenceVersion",
		},
		{
			"Symfony", "id:serial! body:text headers:text queue_name:text#190 created_at:local available_at:local delivered_at:local?",
			"event_id=shop.events-${id} event_type=events headers payload=body occurred_at=created_at | available_at delivered_at | queue_name",
		},
		{
			"gruelbox", "id:char!#36 invocation:text? lastAttemptTime:time? nextAttemptTime:time? attempts:int? blocked:text?#250 version:int? uniqueRequestId:text?!#250 processed:bool? topic:text#250='*' seq:int?",
			"event_id=id event_type=events topic payload=invocation null | lastAttemptTime nextAttemptTime attempts blocked processed | version uniqueRequestId seq",
		},
		{"a default topic", "id:uuid! topic:text='orders'::text destination:text payload:json?", "event_id=id event_type=events topic payload null |  | destination"},
		{"another column is unique", "tenant_id:int id:int code:text! payload:json unique(tenant_id,id)", "event_id=code event_type=events tenant_id partition_key=tenant_id payload |  | id"},
		{"a uuid beside the tenant", "tenant_id:int id:uuid payload:json unique(tenant_id,id)", "event_id=id event_type=events tenant_id partition_key=tenant_id payload |  | "},
		{"an event comes several times", "id:serial! event_id:uuid listener:text payload:json unique(event_id,listener)", "event_id=shop.events-${id} event_type=events payload |  | event_id listener"},
		{"partitioned by time", "id:int created_at:time payload:json unique(id,created_at)", "event_id=shop.events-${id} event_type=events payload occurred_at=created_at |  | "},
		{"a short name", "id:uuid! message:text#100 document:json", "event_id=id event_type=events payload=document |  | message"},
		{"a short payload", "id:uuid! payload:text#100 document:json", "event_id=id event_type=events payload |  | document"},
		{"only short texts", "id:uuid! message:text#100 note:text#100", "event_id=id event_type=events payload=message |  | note"},
		{"plans", "id:uuid! payload:json a:time? due_at:time scheduled:time expire_time:time publish_at:time", "event_id=id event_type=events payload |  | a due_at scheduled expire_time publish_at"},
		{"folded plans", "id:uuid! payload:json deliverby:time nextattempttime:time enqueuetime:time senttime:time", "event_id=id event_type=events payload occurred_at=senttime |  | deliverby nextattempttime enqueuetime"},
		{"a deed", "id:uuid! payload:json published_at:time", "event_id=id event_type=events payload occurred_at=published_at |  | "},
		{"a time by default", "id:uuid! payload:json raised:time?=now()", "event_id=id event_type=events payload occurred_at=raised |  | "},
		{"names that can be NULL", "id:uuid! payload:json occurred_at:time? timestamp:time", "event_id=id event_type=events payload occurred_at=timestamp |  | occurred_at"},
		{
			"Debezium and more", "id:int! event_id:uuid! aggregatetype:text aggregateid:text type:text payload:text?#200 topic:text headers:json timestamp:time",
			"event_id=id aggregate_type=aggregatetype aggregate_id=aggregateid event_type=type payload occurred_at=timestamp null debezium |  | event_id topic headers",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			of, facts := table(c.columns)
			got, err := draft.Of("events", of, facts)
			if err != nil {
				t.Fatal(err)
			}
			if b := brief(&got); b != c.want {
				t.Errorf("got  %s\nwant %s", b, c.want)
			}
		})
	}
}

// The reason names what else a part could be, and what is open.
func TestReasons(t *testing.T) {
	for _, c := range []struct{ columns, role, want string }{
		{"id:uuid! event_id:uuid! data:json payload:json", "event_id", "it could be id too"},
		{"id:uuid event_id:uuid data:json payload:json", "payload", "it could be data too"},
		{"id:uuid! event_id:uuid payload:json", "event_id", "it could be event_id too"},
		{"id:int! payload:json", "event_id", "with the table's name before it, because other tables have the same numbers"},
		{"id:uuid payload:json", "event_type", "say what it is, or where, as in {json: payload, path: \"$.type\"}"},
		{"id:uuid payload:text", "event_type", "say what it is"},
		{"id:uuid payload:json", "event_id", "verify that no two rows share it"},
		{"no:uuid what:json", "payload", "as no name tells"},
		{"id:uuid headers:text data:json", "headers", "it has to hold JSON objects"},
		{"id:uuid created_at:local data:json", "occurred_at", "read as UTC unless time_zone is set"},
		{"id:uuid type:text version:int data:json", "schema_version", "then remove the line"},
		{"id:uuid routing_key:text aggregate_id:text data:json", "aggregate_id", "the key where routing_key is NULL"},
		{"id:uuid tenant:text data:json", "partition_key", "events of a tenant stay in order"},
		{"id:uuid topic:text data:json", "topic", "the topic"},
		{"id:uuid destination:text data:json", "topic", "its text must be a topic's name, and no address such as kafka://topic/orders"},
		{"id:uuid topic:text='*' data:json", "topic", "its text must be a topic's name, and no address such as kafka://topic/orders"},
	} {
		of, facts := table(c.columns)
		d, err := draft.Of("events", of, facts)
		if err != nil {
			t.Fatal(err)
		}
		why := ""
		for _, p := range d.Parts {
			if p.Role.String() == c.role {
				why = p.Why
			}
		}
		if !strings.HasSuffix(why, c.want) && !strings.Contains(why, c.want+": ") {
			t.Errorf("%s: the reason of %s is %q, without %q", c.columns, c.role, why, c.want)
		}
	}
}

func TestNoColumnCanBeTheID(t *testing.T) {
	for _, columns := range []string{
		"payload:json type:text status:int", "tenant_id:int id:int payload:json unique(tenant_id,id)", "source:text id:text payload:json unique(source,id)",
		"a:int? payload:json unique(a)",
	} {
		of, facts := table(columns)
		if d, err := draft.Of("events", of, facts); err == nil || cdc.Fix(err) == "" {
			t.Errorf("%s: got %s, %v", columns, brief(&d), err)
		}
	}
}

func TestNoColumnCanBeThePayload(t *testing.T) {
	of, facts := table("id:serial! status:text#255 messageable_id:text#255 messageable_type:text#255 queued_at:local publishing_at:local? updated_at:local")
	_, err := draft.Of("events", of, facts)
	if want := "table shop.events has no column that can be the payload"; err == nil || err.Error() != want || !strings.Contains(cdc.Fix(err), "tables[].value") {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Whatever a table and its columns are called, the configuration is valid, the rows have what it needs, and it has a topic for them.
func TestEveryDraftIsValid(t *testing.T) {
	words := []string{
		"id", "ID", "event", "type", "yes", "null", "payload", "headers", "metadata", "event_metadata", "tenant", "topic", "key", "created_at", "status", "name",
		"destination", "a b", "${env:HOME}", "#", "x: y", "\"", "'", "`", "ä", "1", "-", "line\nbreak", "\t", "@", "[", "}", "*", "data", "version", "no\u2028", "true",
	}
	kinds := []string{"text", "char", "bytes", "uuid", "int", "json", "time", "local", "bool", "foreign"}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 100 {
		tables := make([]*cdc.Table, 1+r.IntN(2))
		f := draft.File{MySQL: n%2 == 0, DSN: "postgres://a@localhost/b"}
		if f.MySQL {
			f.DSN = "a@tcp(localhost:3306)/b"
		}
		for i := range tables {
			t1, facts := table("the_id:uuid! the_body:bytes " + strings.Repeat("x:"+kinds[r.IntN(len(kinds))]+" ", r.IntN(8)))
			for j := range t1.Columns[2:] {
				t1.Columns[2+j].Name = words[(r.IntN(4)+j*5)%len(words)]
			}
			t1.Name = fmt.Sprintf("%s%d", strings.Trim(words[r.IntN(len(words))], "`\""), i)
			d, err := draft.Of(t1.String(), t1, facts)
			if err != nil {
				t.Fatal(err)
			}
			tables[i], f.Tables = t1, append(f.Tables, d)
		}
		if err := valid(f.YAML(), tables); err != nil {
			t.Fatalf("seed %d: %s\n%s", seed, cdc.Explain(err), f.YAML())
		}
	}
}

func valid(text string, tables []*cdc.Table) error {
	c, err := config.Parse("init.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		return err
	}
	o := router.Options{Policies: cdc.Policies{Malformed: cdc.PolicyDrop}}
	for i, t := range tables {
		layout, err := outbox.Mapped(c.Tables[i].Columns.Parts())
		if err != nil {
			return err
		}
		o.Tables = append(o.Tables, router.Table{Name: outbox.Name{Schema: t.Schema, Table: t.Name}, Layout: layout, Shape: c.Tables[i].Shape(), Source: "/s"})
	}
	for _, r := range c.Routes {
		o.Routes = append(o.Routes, router.Route{Match: r.Match, Topic: r.Topic})
	}
	r := router.New(o)
	for _, t := range tables {
		if err == nil {
			err = r.Check(t)
		}
		if err == nil {
			err = r.Route(ones(t), new(cdc.Routed))
		}
	}
	return err
}

// ones is a row with 1 in all columns, which has a topic and may be malformed.
func ones(t *cdc.Table) *cdc.Batch {
	return &cdc.Batch{Table: t, Arena: []byte("1"), Spans: slices.Repeat([]cdc.Span{{Len: 1}}, len(t.Columns)), Txs: []cdc.Tx{{}}}
}
