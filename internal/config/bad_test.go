package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
)

// good is the smallest file that loads, for bad ones to add to.
const good = `source: {postgres: {dsn: "postgres://relay:s3cret@db/orders"}}
kafka: {brokers: ["k1:9092"]}
`

// bad are files with what is said about them, word for word. Where schemaTakes is set the schema alone
// takes the file.
var bad = []struct {
	name, file, want string
	schemaTakes      bool
}{
	{name: "empty", file: "", want: "x.yaml: the file is empty: start from the annotated example, deploy/cdc-relay.yaml"},
	{
		name: "comments only",
		file: "# nothing\n",
		want: "x.yaml: the file is empty: start from the annotated example, deploy/cdc-relay.yaml",
	},
	{
		name: "scalar",
		file: "hello\n",
		want: "x.yaml:1:1: must hold settings as key: value lines; it is text",
	},
	{
		name: "null document",
		file: "---\n",
		want: "x.yaml:2:1: the file is empty: start from the annotated example, deploy/cdc-relay.yaml",
	},
	{
		name: "two documents",
		file: good + "---\na: 1\n",
		want: "x.yaml: holds more than one YAML document: remove the line --- and what follows it",
	},
	{
		name: "yaml syntax",
		file: "source: {postgres: {dsn: x}\nkafka: 1\n",
		want: "x.yaml:2:1: is not valid YAML: did not find expected ',' or '}'",
	},
	{
		name: "tab",
		file: "source:\n\tpostgres: {}\n",
		want: "x.yaml:2:1: is not valid YAML: indent with spaces, not tabs, and put values that start with @, ` or % in quotes",
	},
	{
		name: "password that looks like an alias",
		file: "source: {postgres: {dsn: *s3cret}}\n",
		want: "x.yaml:1:26: is not valid YAML: a value that starts with * stands for another one here; put it in quotes",
	},
	{
		name: "password that looks like a tag",
		file: good + `checkpoint: {redis: {addrs: ["r:1"], password: !s3cret}}
`,
		want:        "x.yaml:3:48: checkpoint.redis.password has a YAML tag; remove it, or put the value in quotes",
		schemaTakes: true,
	},
	{
		name: "tagged",
		file: `source: {postgres: {dsn: !!binary czNjcmV0}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn has a YAML tag; remove it, or put the value in quotes",
		schemaTakes: true,
	},
	{
		name: "alias",
		file: `source: {postgres: {dsn: &x "postgres://db/o", slot: *x}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:54: source.postgres.slot is an alias, and aliases are not read here; write the value out",
		schemaTakes: true,
	},
	{
		name: "nothing set",
		file: "log: {level: info}\n",
		want: "x.yaml:1:1: kafka.brokers is missing; set it, such as [kafka.example.com:9092]\n" +
			"x.yaml:1:1: source.postgres.dsn is missing; set it, such as postgres://relay@db.example.com:5432/orders",
	},
	{
		name: "key with a typo",
		file: `source: {postgres: {dsn: "postgres://db/o"}}
kafka: {broker: ["k:1"]}
`,
		want: "x.yaml:2:9: kafka.broker is not a setting; did you mean brokers?",
	},
	{
		name: "key in another style",
		file: good + `http: {webConfig: ""}
`,
		want: "x.yaml:3:8: http.webConfig is not a setting; did you mean web_config?",
	},
	{
		name: "key in the wrong section",
		file: good + "slot: orders\n",
		want: "x.yaml:3:1: slot is not a setting; did you mean source.postgres.slot?",
	},
	{
		name: "key of nothing known",
		file: good + "retry: {forever: true}\n",
		want: "x.yaml:3:9: retry.forever is not a setting; retry takes initial, max",
	},
	{
		name: "key at the top",
		file: good + "zookeeper: {}\n",
		want: "x.yaml:3:1: zookeeper is not a setting; the file takes checkpoint, errors, http, kafka, log, position, record, retry, routes, shutdown_timeout, source, tables, topics, window",
	},
	{
		name: "key of a later version",
		file: good + "delivery: exactly-once\n",
		want: "x.yaml:3:1: delivery is not a setting; the file takes checkpoint, errors, http, kafka, log, position, record, retry, routes, shutdown_timeout, source, tables, topics, window",
	},
	{
		name:        "merge key",
		file:        good + "retry: {<<: {initial: 1s}}\n",
		want:        "x.yaml:3:9: retry.<< is not a setting; retry takes initial, max",
		schemaTakes: true,
	},
	{
		name: "key that is a list",
		file: good + "retry: {[a]: 1}\n",
		want: "x.yaml:3:9: retry has a key that is not plain text; write key: value",
	},
	{
		name: "key set twice",
		file: good + "log:\n  level: info\n  level: warn\n",
		want: "x.yaml:5:3: log.level is set twice, first on line 4; keep one",
	},
	{
		name: "no value",
		file: good + "topics:\n  create:\n",
		want: "x.yaml:4:10: topics.create has no value; give it one, or remove the key",
	},
	{
		name: "brokers as text",
		file: `source: {postgres: {dsn: "postgres://db/o"}}
kafka: {brokers: "k:1"}
`,
		want: "x.yaml:2:18: kafka.brokers must be a list, such as [kafka.example.com:9092]; it is text",
	},
	{
		name: "section as text",
		file: good + "retry: 3s\n",
		want: "x.yaml:3:8: retry must hold settings as key: value lines; it is text",
	},
	{
		name: "text as section",
		file: good + "log: {level: {info: true}}\n",
		want: "x.yaml:3:14: log.level must be one of debug, info, warn, error; it is a mapping",
	},
	{
		name: "secret as list",
		file: good + `checkpoint: {redis: {addrs: ["r:1"], password: [s3cret]}}
`,
		want: "x.yaml:3:48: checkpoint.redis.password must be text, such as ${file:/run/secrets/redis}; it is a list",
	},
	{
		name: "word for number",
		file: good + "topics: {create: {partitions: many}}\n",
		want: `x.yaml:3:31: topics.create.partitions must be a whole number; it is "many"`,
	},
	{
		name: "quoted number",
		file: good + `topics: {create: {partitions: "8"}}
`,
		want: `x.yaml:3:31: topics.create.partitions must be a whole number without quotes; it is "8"`,
	},
	{
		name: "number out of range",
		file: good + "topics: {create: {partitions: -2}}\n",
		want: "x.yaml:3:31: topics.create.partitions must be between -1 and 200000; it is -2",
	},
	{
		name: "fraction",
		file: good + "window: {events: 1.5}\n",
		want: "x.yaml:3:18: window.events must be a whole number; it is 1.5",
	},
	{
		name: "word from the environment for number",
		file: good + `window: {events: "${env:WORD}"}
`,
		want:        `x.yaml:3:18: window.events must be a whole number; it is "${env:WORD}"`,
		schemaTakes: true,
	},
	{
		name: "duration without unit",
		file: good + "shutdown_timeout: 20\n",
		want: "x.yaml:3:19: shutdown_timeout must be a positive duration such as 200ms, 3s or 1m30s; it is 20",
	},
	{
		name:        "duration of zero",
		file:        good + "retry: {initial: 0s}\n",
		want:        `x.yaml:3:18: retry.initial must be a positive duration such as 200ms, 3s or 1m30s; it is "0s"`,
		schemaTakes: true,
	},
	{
		name: "duration with a wrong unit",
		file: good + "retry: {initial: 3 s}\n",
		want: `x.yaml:3:18: retry.initial must be a positive duration such as 200ms, 3s or 1m30s; it is "3 s"`,
	},
	{
		name: "size",
		file: good + "window: {bytes: 8 megs}\n",
		want: `x.yaml:3:17: window.bytes must be a size such as 64KiB or 8MiB; it is "8 megs"`,
	},
	{
		name: "enum with a typo",
		file: good + "errors: {rejected: dorp}\n",
		want: `x.yaml:3:20: errors.rejected must be one of stop, drop; it is "dorp"; did you mean drop?`,
	},
	{
		name: "enum of a later version",
		file: good + "errors: {too_large: dead_letter}\n",
		want: `x.yaml:3:21: errors.too_large must be one of stop, drop; it is "dead_letter"`,
	},
	{
		name: "enum in capitals",
		file: good + "kafka2: 1\nlog: {level: INFO}\n",
		want: "x.yaml:3:1: kafka2 is not a setting; did you mean kafka?\n" +
			`x.yaml:4:14: log.level must be one of debug, info, warn, error; it is "INFO"; did you mean info?`,
	},
	{
		name: "boolean",
		file: good + `checkpoint: {redis: {addrs: ["r:1"], tls: {insecure_skip_verify: yes}}}
`,
		want: `x.yaml:3:66: checkpoint.redis.tls.insecure_skip_verify must be true or false; it is "yes"`,
	},
	{
		name: "missing in section",
		file: good + "checkpoint: {redis: {mode: cluster}}\n",
		want: "x.yaml:3:21: checkpoint.redis.addrs is missing; set it, such as [redis.example.com:6379]",
	},
	{
		name: "missing in list",
		file: good + "routes: [{match: {topic: x}}]\n",
		want: "x.yaml:3:10: routes[0].topic is missing; set it, such as orders.${tenant_id}",
	},
	{
		name: "empty list",
		file: `source: {postgres: {dsn: "postgres://db/o"}}
kafka: {brokers: []}
`,
		want: "x.yaml:2:18: kafka.brokers is empty; give it at least 1 entry, such as [kafka.example.com:9092]",
	},
	{
		name: "empty tables",
		file: good + "tables: []\n",
		want: "x.yaml:3:9: tables is empty; give it at least 1 entry",
	},
	{
		name: "empty text",
		file: good + `kafka1: 0
tables: [{name: ""}]
`,
		want: "x.yaml:3:1: kafka1 is not a setting; did you mean kafka?\n" +
			"x.yaml:4:17: tables[0].name is empty; set it, such as public.outbox",
	},
	{
		name: "columns without the event's id",
		file: good + "tables: [{name: app.outbox, columns: {event_type: t, payload: p}}]\n",
		want: "x.yaml:3:38: tables[0].columns.event_id is missing; set it, such as id",
	},
	{
		name: "unset variable",
		file: `source: {postgres: {dsn: "${env:NOT_SET}"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn uses ${env:NOT_SET}, but the environment variable NOT_SET is not set; set it, or give a default with ${env:NOT_SET:-default}",
		schemaTakes: true,
	},
	{
		name: "variable that is empty",
		file: `source: {postgres: {dsn: "${env:EMPTY}"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn is empty; set it, such as postgres://relay@db.example.com:5432/orders",
		schemaTakes: true,
	},
	{
		name: "variable without a name",
		file: good + `record: {source: "${env:}"}
`,
		want:        "x.yaml:3:18: record.source has ${env:} with a name that no environment variable has; write ${env:NAME} or ${env:NAME:-default}",
		schemaTakes: true,
	},
	{
		name: "reference that does not end",
		file: good + `record: {source: "${env:WORD"}
`,
		want:        "x.yaml:3:18: record.source has a ${ without its }",
		schemaTakes: true,
	},
	{
		name: "reference in a reference",
		file: good + `record: {source: "${env:A:-${env:B}}"}
`,
		want:        "x.yaml:3:18: record.source has a reference inside another; only one level is read",
		schemaTakes: true,
	},
	{
		name: "missing file",
		file: good + `checkpoint: {redis: {addrs: ["r:1"], password: "${file:testdata/none}"}}
`,
		want:        "x.yaml:3:48: checkpoint.redis.password uses the file testdata/none, but it cannot be read (no such file or directory); create it, or correct the path",
		schemaTakes: true,
	},
	{
		name: "file without a path",
		file: good + `checkpoint: {redis: {addrs: ["r:1"], password: "${file:}"}}
`,
		want:        "x.yaml:3:48: checkpoint.redis.password has ${file:} without a path; write ${file:/path/to/file}",
		schemaTakes: true,
	},
	{
		name: "directory as file",
		file: good + `checkpoint: {redis: {addrs: ["r:1"], password: "${file:testdata}"}}
`,
		want:        "x.yaml:3:48: checkpoint.redis.password uses the file testdata, but it cannot be read (is a directory); create it, or correct the path",
		schemaTakes: true,
	},
	{
		name: "dsn with an unescaped at sign",
		file: `source: {postgres: {dsn: "postgres://relay:s3cret@x@db/o"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn has an @ out of place; write %40 for @, %2F for / and %25 for % inside the user name and password, or set source.postgres.password",
		schemaTakes: true,
	},
	{
		name: "dsn with an unescaped slash",
		file: `source: {postgres: {dsn: "postgres://relay:1/s3cret@db/o"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn has an @ out of place; write %40 for @, %2F for / and %25 for % inside the user name and password, or set source.postgres.password",
		schemaTakes: true,
	},
	{
		name: "dsn with a bad escape",
		file: `source: {postgres: {dsn: "postgres://relay:s3cret%zz@db/o"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn is not a valid URL; write %XX for special characters in the user name and password, or set source.postgres.password",
		schemaTakes: true,
	},
	{
		name: "dsn of another database",
		file: `source: {postgres: {dsn: "mysql://relay:s3cret@db/o"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn is not a connection string; write postgres://user@host:5432/database, or key=value pairs with values that hold spaces in single quotes",
		schemaTakes: true,
	},
	{
		name: "dsn with a bad port",
		file: `source: {postgres: {dsn: "postgres://relay:s3cret@db:port/o"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn has a port that is not a number; a / in the password must be written as %2F",
		schemaTakes: true,
	},
	{
		name: "dsn with a bad sslmode",
		file: `source: {postgres: {dsn: "postgres://relay:s3cret@db/o?sslmode=on"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn has TLS settings that do not work; look at sslmode, sslrootcert, sslcert and sslkey",
		schemaTakes: true,
	},
	{
		name: "dsn with a missing certificate",
		file: `source: {postgres: {dsn: "host=db password=s3cret sslmode=verify-full sslrootcert=testdata/none"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn names a file in sslrootcert, sslcert, sslkey or servicefile that cannot be read (no such file or directory); correct the path",
		schemaTakes: true,
	},
	{
		name: "dsn with an open quote",
		file: `source: {postgres: {dsn: "host=db password='s3cret"}}
kafka: {brokers: ["k:1"]}
`,
		want:        "x.yaml:1:26: source.postgres.dsn is not a connection string; write postgres://user@host:5432/database, or key=value pairs with values that hold spaces in single quotes",
		schemaTakes: true,
	},
	{
		name: "slot",
		file: `source: {postgres: {dsn: "postgres://db/o", slot: Orders-EU}}
kafka: {brokers: ["k:1"]}
`,
		want:        `x.yaml:1:51: source.postgres.slot must be 1 to 63 of a-z, 0-9 and _; it is "Orders-EU"`,
		schemaTakes: true,
	},
	{
		name: "status interval",
		file: `source: {postgres: {dsn: "postgres://db/o", status_interval: 10s}}
kafka: {brokers: ["k:1"]}
`,
		want:        `x.yaml:1:62: source.postgres.status_interval must be less than 10s: the server ends a connection that is silent for longer; it is "10s"`,
		schemaTakes: true,
	},
	{
		name:        "table name",
		file:        good + "tables: [{name: a.b.c}]\n",
		want:        "x.yaml:3:17: tables[0].name is not a table's name; write schema.table, with double quotes around a part that holds a dot",
		schemaTakes: true,
	},
	{
		name:        "table twice",
		file:        good + "tables: [{name: outbox}, {name: public.outbox}]\n",
		want:        "x.yaml:3:33: tables[1].name is the same table as tables[0]; keep one",
		schemaTakes: true,
	},
	{
		name: "route expression",
		file: good + `routes: [{match: {tenant_id: "("}, topic: x}]
`,
		want:        `x.yaml:3:30: routes[0].match.tenant_id is not a regular expression (missing closing )); correct "("`,
		schemaTakes: true,
	},
	{
		name: "route template",
		file: good + `routes: [{topic: "orders.$tenant"}]
`,
		want:        `x.yaml:3:18: routes[0].topic has a $, { or } that is not part of a ${name}; it is "orders.$tenant"`,
		schemaTakes: true,
	},
	{
		name: "route characters",
		file: good + `routes: [{topic: "orders/${tenant_id}"}]
`,
		want:        `x.yaml:3:18: routes[0].topic has a character that no topic may have; use letters, digits, dots, dashes and underscores; it is "orders/${tenant_id}"`,
		schemaTakes: true,
	},
	{
		name:        "route out of reach",
		file:        good + "routes: [{topic: a}, {topic: b}]\n",
		want:        "x.yaml:3:10: routes[0] matches every row, so that the routes behind it are never reached; put it last, or give it a match",
		schemaTakes: true,
	},
	{
		name: "record source",
		file: good + `record: {source: "my orders"}
`,
		want:        `x.yaml:3:18: record.source is not a URI reference such as /orders; it is "my orders"`,
		schemaTakes: true,
	},
	{
		name: "broker without port",
		file: `source: {postgres: {dsn: "postgres://db/o"}}
kafka: {brokers: ["k1:9092", k2, "http://k3:9092"]}
`,
		want: `x.yaml:2:30: kafka.brokers[1] must be host:port; it is "k2"` + "\n" +
			`x.yaml:2:34: kafka.brokers[2] must be host:port; it is "http://k3:9092"`,
		schemaTakes: true,
	},
	{
		name: "broker from the environment",
		file: `source: {postgres: {dsn: "postgres://db/o"}}
kafka: {brokers: ["${env:WORD}"]}
`,
		want:        `x.yaml:2:19: kafka.brokers[0] must be host:port; it is "${env:WORD}"`,
		schemaTakes: true,
	},
	{
		name: "certificate without key",
		file: good + `kafka1: 1
checkpoint: {redis: {addrs: ["r:1"], tls: {cert: c.pem}}}
`,
		want: "x.yaml:3:1: kafka1 is not a setting; did you mean kafka?\n" +
			"x.yaml:4:50: checkpoint.redis.tls.cert needs the private key too; set checkpoint.redis.tls.key",
	},
	{
		name: "authorities",
		file: good + `checkpoint: {redis: {addrs: ["r:1"], tls: {ca: testdata/none.pem}}}
`,
		want:        "x.yaml:3:48: checkpoint.redis.tls.ca cannot be used (no such file or directory); name a PEM file of certificates",
		schemaTakes: true,
	},
	{
		name:        "zero partitions",
		file:        good + "topics: {create: {partitions: 0}}\n",
		want:        "x.yaml:3:31: topics.create.partitions must be 1 or more, or -1 for the broker's default",
		schemaTakes: true,
	},
	{
		name: "redis beside file",
		file: good + `checkpoint: {file: /tmp/p, redis: {addrs: ["r:1"]}}
`,
		want:        "x.yaml:3:20: checkpoint.file is set beside checkpoint.redis; keep one of them",
		schemaTakes: true,
	},
	{
		name: "standalone with two",
		file: good + `checkpoint: {redis: {addrs: ["r:1", "s:1"]}}
`,
		want:        "x.yaml:3:29: checkpoint.redis.addrs has 2 addresses, but mode standalone takes one; set checkpoint.redis.mode to sentinel or cluster",
		schemaTakes: true,
	},
	{
		name: "sentinel without master",
		file: good + `checkpoint: {redis: {mode: sentinel, addrs: ["r:1"]}}
`,
		want:        "x.yaml:3:21: checkpoint.redis.master_name is missing; mode sentinel needs the name that the sentinels know the master by",
		schemaTakes: true,
	},
	{
		name: "master without sentinel",
		file: good + `checkpoint: {redis: {addrs: ["r:1"], master_name: m}}
`,
		want:        "x.yaml:3:21: checkpoint.redis has settings for sentinels, but its mode is standalone; set checkpoint.redis.mode to sentinel, or remove them",
		schemaTakes: true,
	},
	{
		name: "cluster",
		file: good + `checkpoint: {redis: {mode: cluster, addrs: ["r:1"], db: 1, key: orders}}
`,
		want: "x.yaml:3:57: checkpoint.redis.db must be 0: a cluster has no other database\n" +
			"x.yaml:3:65: checkpoint.redis.key needs a hash tag in a cluster; put part of it in braces, such as cdc-relay:{orders}",
		schemaTakes: true,
	},
	{
		name:        "retry",
		file:        good + "retry: {initial: 2m}\n",
		want:        "x.yaml:3:18: retry.initial is longer than retry.max; make it shorter, or retry.max longer",
		schemaTakes: true,
	},
	{
		name: "listen",
		file: good + `http: {listen: "9464"}
`,
		want:        `x.yaml:3:16: http.listen must be host:port or :port, such as :9464; it is "9464"`,
		schemaTakes: true,
	},
	{
		name:        "web config",
		file:        good + "http: {web_config: testdata/none.yaml}\n",
		want:        "x.yaml:3:20: http.web_config names a file that cannot be read (no such file or directory); correct the path",
		schemaTakes: true,
	},
	{
		name: "empty id",
		file: good + `errors: {skip: [" "]}
`,
		want:        "x.yaml:3:17: errors.skip[0] is empty; give the event's id, or remove the line",
		schemaTakes: true,
	},
	{
		name: "all at once",
		file: `source:
  postgres: {dsn: "postgres://db/o", slott: x}
kafka:
  brokers: [k1]
  compression: lz5
window: {events: 0}
retry: {max: 1}
`,
		want: "x.yaml:2:38: source.postgres.slott is not a setting; did you mean slot?\n" +
			`x.yaml:4:13: kafka.brokers[0] must be host:port; it is "k1"` + "\n" +
			`x.yaml:5:16: kafka.compression must be one of none, gzip, snappy, lz4, zstd; it is "lz5"; did you mean lz4?` + "\n" +
			"x.yaml:6:18: window.events must be between 1 and 100000000; it is 0\n" +
			"x.yaml:7:14: retry.max must be a positive duration such as 200ms, 3s or 1m30s; it is 1",
	},
}

func TestBad(t *testing.T) {
	schema := compileSchema(t)
	vars := environment(map[string]string{"EMPTY": "", "WORD": "w0rd", "PASSWORD": "s3cret"})
	for _, b := range bad {
		t.Run(b.name, func(t *testing.T) {
			c, err := config.Parse("x.yaml", []byte(b.file), vars)
			if err == nil || c != nil {
				t.Fatalf("loads: %+v", c)
			}
			if err.Error() != b.want {
				t.Errorf("\nhave %s\nwant %s", err, b.want)
			}
			var stop *cdc.StopError
			if !errors.As(err, &stop) || stop.Class != cdc.ClassConfig || stop.Reason != "config" {
				t.Errorf("class of %#v", err)
			}
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "w0rd") {
				t.Error("a value leaked")
			}
			if takes := againstSchema(t, schema, b.file) == nil; takes != b.schemaTakes {
				t.Errorf("the schema takes it: %t", takes)
			}
		})
	}
}
