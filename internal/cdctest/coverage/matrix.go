package coverage

// The databases.
const (
	Postgres = "postgres"
	MySQL    = "mysql"
	MariaDB  = "mariadb"
)

// databases returns all databases, in the order of the table.
func databases() []string { return []string{Postgres, MySQL, MariaDB} }

// The modes of delivery.
const (
	AtLeastOnce = "at-least-once"
	ExactlyOnce = "exactly-once"
)

// modes returns those in which every row must have a test.
func modes() []string { return []string{AtLeastOnce, ExactlyOnce} }

// row is a kind of fault and what the relay does.
type row struct {
	number        int
	fault, result string
	// noCommit says why it does not apply to at-least-once delivery, which commits nothing in Kafka.
	noCommit string
	// except says by database why it does not apply.
	except map[string]string
}

func (r *row) applies(database, mode string) bool {
	return (r.noCommit == "" || mode == ExactlyOnce) && r.except[database] == ""
}

// binlogs gives MySQL and MariaDB the same reason.
func binlogs(reason string) map[string]string {
	return map[string]string{MySQL: reason, MariaDB: reason}
}

// matrix returns the rows. A number is never used for another fault.
func matrix() []row {
	return []row{
		{number: 1, fault: "the relay is killed at random moments, again and again", result: "nothing lost, order kept, repeats within the bound; exactly-once: none"},
		{number: 2, fault: "killed between Kafka's acknowledgement and the save", result: "what was not saved is repeated, at most one window; exactly-once: nothing"},
		{number: 3, fault: "killed between Kafka's commit and the save", result: "nothing repeated", noCommit: "it has no transactions in Kafka; see row 2"},
		{
			number: 4, fault: "killed between the save and the status update to PostgreSQL", result: "nothing repeated",
			except: binlogs("the server stores no position of the relay"),
		},
		{number: 5, fault: "SIGTERM under load", result: "drained and saved, nothing repeated"},
		{number: 6, fault: "frozen, for a while or until a standby leads", result: "nothing of it is published or saved behind its successor"},
		{number: 7, fault: "two relays for one database", result: "one leads, the other stands by and takes over"},
		{number: 8, fault: "idle outbox in a busy database", result: "the position advances, so that the server can remove WAL or binlog"},
		{number: 9, fault: "keepalives while events are not acknowledged", result: "the position stays before these events"},
		{number: 10, fault: "the database crashes and recovers", result: "reconnects, and filters what the server sends again"},
		{number: 11, fault: "the database shuts down while Kafka is down", result: "the shutdown is not delayed"},
		{
			number: 12, fault: "the slot is dropped, recreated or lost", result: "exit code 5, names the fix",
			except: binlogs("there is no slot; see row 19"),
		},
		{number: 13, fault: "the position was moved by hand, or the database is a clone, a backup or another server", result: "stops before it publishes anything of another history; what MySQL and MariaDB cannot tell is under Not promised"},
		{
			number: 14, fault: "the publication is changed, or a table in it renamed or replaced", result: "stops, nothing confirmed past the change, no row left out",
			except: binlogs("there is no publication"),
		},
		{number: 15, fault: "columns are added, dropped or renamed", result: "mapped by name; stops before the first row without a required column"},
		{number: 16, fault: "partitions are made, detached and dropped, old rows are deleted", result: "nothing is dropped before its position is saved"},
		{number: 17, fault: "interleaved, rolled-back, very large transactions, savepoints", result: "committed events only, in order, flat memory"},
		{number: 18, fault: "the connection ends within a transaction", result: "the transaction is published whole, its events once by one process"},
		{
			number: 19, fault: "the binlog is purged", result: "continues behind what it has read; otherwise exit code 5, names the fix",
			except: map[string]string{Postgres: "the slot keeps the WAL; see row 12"},
		},
		{number: 20, fault: "what cannot be read as rows: XA, statements, incomplete rows, incidents", result: "stops before it and names the fix, or proves that no outbox is reached"},
		{number: 21, fault: "brokers are killed", result: "waits and continues, nothing lost or repeated"},
		{number: 22, fault: "requests or responses of Kafka are lost or late", result: "no duplicates from retries; late requests of a killed relay are rejected"},
		{number: 23, fault: "the answer to the commit of a Kafka transaction is lost", result: "nothing repeated", noCommit: "it has no transactions in Kafka; see row 22"},
		{number: 24, fault: "an event is too large, rejected, without a route or with an invalid topic", result: "by policy; no later event of its key overtakes it"},
		{number: 25, fault: "a topic is missing or compacted, a right is missing", result: "stops and names it; continues in order"},
		{number: 26, fault: "the checkpoint is flushed, rolled back, replaced or unavailable", result: "publishing continues; exit code 4 or 5 if it is another's; exactly-once: nothing repeated"},
		{number: 27, fault: "malformed rows, unknown types and character sets", result: "by policy, with the event's ID in the message"},
		{number: 28, fault: "bad configuration, unsuitable servers", result: "one line with the place and the fix"},
		{number: 29, fault: "the primary dies, a replica is promoted", result: "continues; exit code 5 if it lacks what was published"},
		{number: 30, fault: "no file descriptors, a full disk, a clock that is stepped back", result: "a clear error or no effect, nothing lost"},
		{number: 31, fault: "connections are cut or silent", result: "reconnects, nothing repeated by one process"},
		{number: 32, fault: "the window is full", result: "reading pauses, continues from its position", except: map[string]string{Postgres: "the walsender waits; see row 11"}},
		{number: 33, fault: "a server is away at the start", result: "waits, alive and not ready", except: binlogs("the start is the same code on every database")},
		{number: 34, fault: "an event cannot be published and becomes a dead letter", result: "other keys pass; its key follows it, in order, also after a crash"},
		{number: 35, fault: "SIGKILL while events become dead letters or are published again", result: "none lost, order kept per key"},
		{number: 36, fault: "a commit is in the WAL or binlog and not visible yet, or waits for a standby", result: "no event before its row can be read"},
	}
}

// on returns the databases of a declaration.
func on(word string) []string {
	return map[string][]string{
		"all": databases(), "binlogs": {MySQL, MariaDB}, Postgres: {Postgres}, MySQL: {MySQL}, MariaDB: {MariaDB},
	}[word]
}

// kinds are what a test may count.
func kinds() map[string]string {
	return map[string]string{
		"events":   "lost, out of order, repeated, uncommitted and changed events",
		"arrivals": "which events arrive",
		"exit":     "exit code and message",
		"rows":     "rows that the source hands on",
		"state":    "position, metrics or tables",
		"messages": "what the error says",
	}
}
