import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.UUID;

/**
 * Appends events to cdc-relay's outbox table in the caller's transaction, with JDBC, on PostgreSQL, MySQL and MariaDB. The relay publishes
 * them after the commit.
 *
 * <p>Copy this file into your project and add its package. It needs Java 17 and a table whose payload column takes bytes, the default of
 * {@code cdc-relay schema print}.
 */
public final class Outbox {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int MYSQL_TEXT = 255; // characters in a column
    private static final DateTimeFormatter MYSQL_TIME = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS", Locale.ROOT).withZone(ZoneOffset.UTC);

    private final String table;
    private final int maxPayload;

    public Outbox() {
        this("outbox", 1 << 20);
    }

    /** table is written into the SQL as it is; maxPayload is in bytes. */
    public Outbox(String table, int maxPayload) {
        this.table = table;
        this.maxPayload = maxPayload;
    }

    /** Appends events in order. The connection must be in a transaction, which the caller commits or rolls back. */
    public void append(Connection connection, Event... events) throws SQLException {
        append(connection, Arrays.asList(events));
    }

    /** Appends events in order. If it fails, roll the transaction back. */
    public void append(Connection connection, List<Event> events) throws SQLException {
        if (connection.getAutoCommit()) {
            throw new IllegalStateException("the connection is in autocommit mode, so events would be published even if the change fails: "
                    + "call setAutoCommit(false) before the change");
        }
        boolean postgres = connection.getMetaData().getDatabaseProductName().equals("PostgreSQL");
        for (int i = 0; i < events.size(); i++) {
            check(i, events.get(i), postgres);
        }
        try (PreparedStatement insert = connection.prepareStatement(statement(postgres))) {
            for (Event event : events) {
                bind(insert, event, postgres);
                insert.addBatch();
            }
            insert.executeBatch();
        }
    }

    private String statement(boolean postgres) {
        return "INSERT INTO " + table + " (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key, content_type,"
                + " schema_id, schema_version, headers, payload, occurred_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                + (postgres ? "?::jsonb, ?, ?, COALESCE(?, now()))" : "?, ?, ?, COALESCE(?, UTC_TIMESTAMP(6)))");
    }

    private static void bind(PreparedStatement insert, Event e, boolean postgres) throws SQLException {
        if (postgres) {
            insert.setObject(1, e.id);
        } else {
            insert.setBytes(1, ByteBuffer.allocate(16).putLong(e.id.getMostSignificantBits()).putLong(e.id.getLeastSignificantBits()).array());
        }
        String[] texts = {e.aggregateType, e.aggregateId, e.type, e.tenantId, e.topic, e.partitionKey, e.contentType, e.schemaId};
        for (int i = 0; i < texts.length; i++) {
            insert.setString(i + 2, texts[i]);
        }
        insert.setObject(10, e.schemaVersion == 0 ? null : e.schemaVersion, Types.INTEGER);
        insert.setString(11, e.headers.isEmpty() ? null : json(e.headers));
        insert.setBytes(12, e.payload);
        setTime(insert, 13, e.occurredAt, postgres);
        setTime(insert, 14, timeOf(e.id), postgres);
    }

    /** Sends UTC; to MySQL and MariaDB as text, because MySQL's driver leaves out fractions of a second on MariaDB. */
    private static void setTime(PreparedStatement insert, int index, Instant at, boolean postgres) throws SQLException {
        if (at == null) {
            insert.setNull(index, postgres ? Types.TIMESTAMP_WITH_TIMEZONE : Types.VARCHAR);
        } else if (postgres) {
            insert.setObject(index, at.truncatedTo(ChronoUnit.MICROS).atOffset(ZoneOffset.UTC));
        } else {
            insert.setString(index, MYSQL_TIME.format(at));
        }
    }

    private void check(int index, Event e, boolean postgres) {
        String where = "event " + index + ": ";
        require(e.aggregateType, where + "aggregateType is empty: set the type of the entity, for example Order");
        require(e.aggregateId, where + "aggregateId is empty: set the ID of the entity");
        require(e.type, where + "type is empty: set the type of the event, for example OrderPlaced");
        for (String s : Arrays.asList(e.aggregateType, e.aggregateId, e.type, e.tenantId, e.topic, e.partitionKey, e.contentType, e.schemaId)) {
            checkText(where, s);
            if (s != null && !postgres && s.codePointCount(0, s.length()) > MYSQL_TEXT) {
                throw new IllegalArgumentException(where + "a text has more than " + MYSQL_TEXT + " characters: shorten it");
            }
        }
        e.headers.forEach((name, value) -> {
            String lower = name.toLowerCase(Locale.ROOT);
            if (name.isEmpty() || lower.startsWith("ce_") || lower.equals("content-type")) {
                throw new IllegalArgumentException(where + "header \"" + name + "\" is reserved or empty: choose another name");
            }
            checkText(where, name);
            checkText(where, Objects.requireNonNull(value, where + "header " + name + " is null: remove it"));
        });
        if (e.payload != null && e.payload.length > maxPayload) {
            throw new IllegalArgumentException(where + "the payload has " + e.payload.length + " bytes, and the limit is " + maxPayload
                    + ": store the data elsewhere and send a reference");
        }
        if (e.schemaVersion < 0) {
            throw new IllegalArgumentException(where + "schemaVersion is negative: give 1 or more, or 0 for none");
        }
        for (Instant at : Arrays.asList(e.occurredAt, timeOf(e.id))) {
            if (at != null && (at.atOffset(ZoneOffset.UTC).getYear() < 1 || at.atOffset(ZoneOffset.UTC).getYear() > 9999)) {
                throw new IllegalArgumentException(where + "a time is not in the years 1 to 9999: correct it");
            }
        }
    }

    private static void require(String s, String otherwise) {
        if (s == null || s.isEmpty()) {
            throw new IllegalArgumentException(otherwise);
        }
    }

    private static void checkText(String where, String s) {
        if (s != null && (s.indexOf(0) >= 0 || !StandardCharsets.UTF_8.newEncoder().canEncode(s))) {
            throw new IllegalArgumentException(where + "a text holds U+0000 or half of a surrogate pair: remove it");
        }
    }

    private static String json(Map<String, String> headers) {
        StringBuilder out = new StringBuilder("{");
        headers.forEach((name, value) -> {
            quote(out.append(out.length() > 1 ? "," : ""), name);
            quote(out.append(':'), value);
        });
        return out.append('}').toString();
    }

    private static void quote(StringBuilder out, String s) {
        out.append('"');
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /** Makes a UUID of version 7: such IDs increase with time, which keeps the index small. */
    public static UUID newId() {
        long random = RANDOM.nextLong();
        return new UUID(System.currentTimeMillis() << 16 | 0x7000 | random & 0xFFF, RANDOM.nextLong() >>> 2 | 1L << 63);
    }

    /** The time in an ID of version 7. As created_at it makes the table's key refuse the same ID twice. */
    private static Instant timeOf(UUID id) {
        return id.version() == 7 && id.variant() == 2 ? Instant.ofEpochMilli(id.getMostSignificantBits() >>> 16) : null;
    }

    /**
     * One row of the table and one record. The ID is set here and not when the event is written, so that a transaction that is run again
     * writes the same one.
     */
    public static final class Event {
        private final String aggregateType;
        private final String aggregateId;
        private final String type;
        private final byte[] payload; // null is a tombstone
        private final Map<String, String> headers = new TreeMap<>();
        private UUID id = newId();
        private Instant occurredAt = Instant.now();
        private String contentType = "application/json";
        private String tenantId;
        private String topic;
        private String partitionKey;
        private String schemaId;
        private int schemaVersion;

        private Event(String aggregateType, String aggregateId, String type, byte[] payload) {
            this.aggregateType = aggregateType;
            this.aggregateId = aggregateId;
            this.type = type;
            this.payload = payload;
        }

        /** An event with JSON, or other text, as payload. aggregateId is the record's key unless there is a partitionKey. */
        public static Event of(String aggregateType, String aggregateId, String type, String payload) {
            return of(aggregateType, aggregateId, type, payload.getBytes(StandardCharsets.UTF_8));
        }

        /** An event with any bytes as payload; it may be empty. */
        public static Event of(String aggregateType, String aggregateId, String type, byte[] payload) {
            return new Event(aggregateType, aggregateId, type, Objects.requireNonNull(payload, "the payload is null: set it, or use tombstone"));
        }

        /** An event without a value, which deletes its key from a compacted topic. */
        public static Event tombstone(String aggregateType, String aggregateId, String type) {
            return new Event(aggregateType, aggregateId, type, null);
        }

        public Event id(UUID id) {
            this.id = Objects.requireNonNull(id, "the ID is null: leave it out to have one made");
            return this;
        }

        public Event occurredAt(Instant occurredAt) {
            this.occurredAt = Objects.requireNonNull(occurredAt, "occurredAt is null: leave it out for now");
            return this;
        }

        public Event contentType(String contentType) {
            this.contentType = Objects.requireNonNull(contentType, "the content type is null: leave it out for application/json");
            return this;
        }

        public Event header(String name, String value) {
            headers.put(name, value);
            return this;
        }

        public Event tenantId(String tenantId) {
            this.tenantId = tenantId;
            return this;
        }

        /** Overrides the relay's routes. */
        public Event topic(String topic) {
            this.topic = topic;
            return this;
        }

        /** Replaces aggregateId as the record's key. */
        public Event partitionKey(String partitionKey) {
            this.partitionKey = partitionKey;
            return this;
        }

        public Event schema(String schemaId, int schemaVersion) {
            this.schemaId = schemaId;
            this.schemaVersion = schemaVersion;
            return this;
        }
    }
}
