import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.time.Instant;
import java.util.UUID;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Writes the events that clients_test.go expects, to each database whose JDBC URL is an argument. */
public class Clients {
    public static void main(String[] urls) throws Exception {
        for (String url : urls) {
            try (Connection connection = DriverManager.getConnection(url)) {
                jdbc(connection);
            }
            spring(new DriverManagerDataSource(url));
        }
    }

    static Outbox.Event event(String client, String type) {
        return Outbox.Event.of("Order", client, type, "{}");
    }

    static Outbox.Event full(String client, String id) {
        return Outbox.Event.of("Order", "o-1", "Full", "{\"name\": \"é😀\"}").id(UUID.fromString(id)).occurredAt(Instant.parse("2026-01-02T03:04:05.678Z"))
                .contentType("application/vnd.order+json").tenantId("acme").partitionKey(client).schema("shop.Full", 2)
                .header("traceparent", "00-1").header("quote", "a\"b\\c\n é😀");
    }

    static void jdbc(Connection connection) throws Exception {
        Outbox outbox = new Outbox();
        String id = "019aa6a0-7b7c-7cc0-8000-00000000000a";
        refused(IllegalStateException.class, () -> outbox.append(connection, event("jdbc", "Autocommitted")));
        connection.setAutoCommit(false);
        for (Outbox.Event bad : new Outbox.Event[] {
                event("", "Bad"), event("jdbc", ""), event("jdbc", "a\0b"), event("jdbc", "\ud800"), event("jdbc", "Bad").header("CE_id", ""),
                event("jdbc", "Bad").header("Content-Type", ""), event("jdbc", "Bad").header("a", "\0"),
                event("jdbc", "Bad").schema("s", -1), event("jdbc", "Bad").occurredAt(Instant.parse("+10000-01-01T00:00:00Z")),
                Outbox.Event.of("Order", "jdbc", "Bad", new byte[(1 << 20) + 1])}) {
            refused(IllegalArgumentException.class, () -> outbox.append(connection, event("jdbc", "Good"), bad));
        }
        outbox.append(connection, full("jdbc", id), Outbox.Event.tombstone("Order", "jdbc", "Tombstone"));
        outbox.append(connection, event("jdbc", "Before"));
        Savepoint savepoint = connection.setSavepoint();
        outbox.append(connection, event("jdbc", "Undone"));
        connection.rollback(savepoint);
        outbox.append(connection, event("jdbc", "After"));
        connection.commit();
        outbox.append(connection, event("jdbc", "RolledBack"));
        connection.rollback();
        refused(SQLException.class, () -> outbox.append(connection, full("jdbc", id))); // the same ID again
        connection.rollback();
    }

    static void spring(DriverManagerDataSource source) throws Exception {
        JdbcTransactionManager manager = new JdbcTransactionManager(source);
        TransactionTemplate required = new TransactionTemplate(manager);
        TransactionTemplate nested = new TransactionTemplate(manager);
        nested.setPropagationBehavior(TransactionDefinition.PROPAGATION_NESTED);
        TransactionTemplate separate = new TransactionTemplate(manager);
        separate.setPropagationBehavior(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
        TransactionTemplate reading = new TransactionTemplate(manager);
        reading.setReadOnly(true);
        SpringOutbox outbox = new SpringOutbox(source);
        SpringOutbox other = new SpringOutbox(new DriverManagerDataSource(source.getUrl()));
        refused(IllegalTransactionStateException.class, () -> outbox.raise(event("spring", "NoTransaction")));
        refused(IllegalTransactionStateException.class, () -> reading.executeWithoutResult(s -> outbox.raise(event("spring", "ReadOnly"))));
        refused(IllegalTransactionStateException.class, () -> required.executeWithoutResult(s -> other.raise(event("spring", "OtherSource"))));
        refused(IllegalArgumentException.class, () -> required.executeWithoutResult(s -> outbox.raise(event("spring", ""))));
        refused(ArithmeticException.class, () -> required.executeWithoutResult(s -> {
            outbox.raise(event("spring", "RolledBack"));
            throw new ArithmeticException();
        }));
        required.executeWithoutResult(s -> {
            refusedUnchecked(ArithmeticException.class, () -> nested.executeWithoutResult(n -> { // before anything else was raised
                outbox.raise(event("spring", "UndoneFirst"));
                throw new ArithmeticException();
            }));
            outbox.raise(full("spring", "019aa6a0-7b7c-7cc0-8000-00000000000b"), Outbox.Event.tombstone("Order", "spring", "Tombstone"));
            refusedUnchecked(ArithmeticException.class, () -> separate.executeWithoutResult(n -> {
                outbox.raise(event("spring", "OtherTransaction"));
                throw new ArithmeticException();
            }));
            nested.executeWithoutResult(n -> outbox.raise(event("spring", "Before")));
            refusedUnchecked(ArithmeticException.class, () -> nested.executeWithoutResult(n -> {
                outbox.raise(event("spring", "Undone"));
                throw new ArithmeticException();
            }));
            raiseBeforeCommit(outbox, "After");
        });
        required.executeWithoutResult(s -> raiseBeforeCommit(outbox, "First"));
        TransactionTemplate flushing = new TransactionTemplate(new JdbcTransactionManager(source) {
            @Override
            protected void doCommit(DefaultTransactionStatus status) {
                outbox.raise(event("spring", "Flush"));
                super.doCommit(status);
            }
        });
        flushing.executeWithoutResult(s -> { });
        flushing.executeWithoutResult(s -> outbox.raise(event("spring", "BeforeFlush")));
    }

    static void raiseBeforeCommit(SpringOutbox outbox, String type) {
        TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
            @Override
            public void beforeCommit(boolean readOnly) {
                outbox.raise(event("spring", type));
            }

            @Override
            public void afterCommit() {
                refusedUnchecked(IllegalTransactionStateException.class, () -> outbox.raise(event("spring", "Late")));
            }
        });
    }

    interface Code {
        void run() throws Exception;
    }

    static void refused(Class<? extends Exception> want, Code code) throws Exception {
        try {
            code.run();
        } catch (Exception e) {
            if (want.isInstance(e)) {
                return;
            }
            throw e;
        }
        throw new AssertionError("was not refused with " + want);
    }

    static void refusedUnchecked(Class<? extends Exception> want, Code code) {
        try {
            refused(want, code);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
