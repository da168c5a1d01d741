import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import javax.sql.DataSource;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Appends events before the commit of Spring's transaction, with {@link Outbox}. Make it a bean, and call {@link #raise} in methods that are
 * {@code @Transactional}.
 *
 * <p>Copy both files into your project and add its package. It needs Spring 6.2, because of savepoints, and a transaction manager that binds
 * the data source's connection: those for JDBC, and for JPA with Hibernate.
 *
 * <p>It is no {@code @TransactionalEventListener}: that one is skipped without an error where there is no transaction.
 */
public class SpringOutbox {
    private final DataSource dataSource;
    private final Outbox outbox;

    public SpringOutbox(DataSource dataSource) {
        this(dataSource, new Outbox());
    }

    public SpringOutbox(DataSource dataSource, Outbox outbox) {
        this.dataSource = dataSource;
        this.outbox = outbox;
    }

    /**
     * Has the events appended before the current transaction commits, in order. Those of a savepoint that is rolled back are forgotten, and a
     * bad event makes the commit fail and roll back. Do not call it in afterCommit: Spring cannot tell that the transaction has ended.
     *
     * @throws IllegalTransactionStateException without a transaction of this data source, or in one that is read-only or ending
     */
    public void raise(Outbox.Event... events) {
        if (!TransactionSynchronizationManager.isActualTransactionActive() || !TransactionSynchronizationManager.isSynchronizationActive()) {
            throw new IllegalTransactionStateException("there is no transaction: make the caller @Transactional, and call it through its bean");
        }
        if (TransactionSynchronizationManager.getResource(dataSource) == null) {
            throw new IllegalTransactionStateException("the transaction is one of another data source: give SpringOutbox the data source of the "
                    + "transaction manager");
        }
        if (TransactionSynchronizationManager.isCurrentTransactionReadOnly()) {
            throw new IllegalTransactionStateException("the transaction is read-only: raise events where data is changed");
        }
        raised().add(List.of(events));
    }

    /** What was raised in the current transaction: Spring keeps it with the transaction, also while that is suspended. */
    private Raised raised() {
        for (TransactionSynchronization s : TransactionSynchronizationManager.getSynchronizations()) {
            if (s instanceof Raised raised && raised.owner() == this) {
                return raised;
            }
        }
        Raised raised = new Raised();
        TransactionSynchronizationManager.registerSynchronization(raised);
        return raised;
    }

    private final class Raised implements TransactionSynchronization {
        private final List<Outbox.Event> events = new ArrayList<>();
        private final Map<Object, Integer> savepoints = new IdentityHashMap<>();
        private boolean appended;
        private boolean ending;

        SpringOutbox owner() {
            return SpringOutbox.this;
        }

        void add(List<Outbox.Event> more) {
            if (ending) {
                throw new IllegalTransactionStateException("the transaction is ending: raise events before its commit");
            }
            events.addAll(more);
            if (appended) { // another callback before the commit raised them, after this one had run
                append();
            }
        }

        @Override
        public void beforeCommit(boolean readOnly) {
            appended = true;
            append();
        }

        @Override
        public void beforeCompletion() {
            ending = true;
        }

        @Override
        public void savepoint(Object savepoint) {
            savepoints.put(savepoint, events.size());
        }

        /** A savepoint that is not known is older than this object, and so older than all events. */
        @Override
        public void savepointRollback(Object savepoint) {
            int keep = savepoints.getOrDefault(savepoint, 0);
            events.subList(Math.min(keep, events.size()), events.size()).clear();
        }

        private void append() {
            Connection connection = DataSourceUtils.getConnection(dataSource);
            try {
                outbox.append(connection, events);
                events.clear();
            } catch (SQLException e) {
                throw new IllegalStateException("append events: " + e.getMessage(), e);
            } finally {
                DataSourceUtils.releaseConnection(connection, dataSource);
            }
        }
    }
}
