import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Appends events in Spring's transaction, with {@link Outbox}. Make it a bean, and call {@link #raise} in methods that are
 * {@code @Transactional}.
 *
 * <p>Copy both files into your project and add its package. It needs Spring 6 and a transaction manager that binds the data source's
 * connection: those for JDBC, and for JPA with Hibernate.
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
     * Appends the events in the current transaction, in order; callbacks before its commit and in a flush may call it too. If it fails, as
     * it does for a bad event, roll back: a caller that catches the exception commits the change without its event. Do not call it in afterCommit: Spring cannot tell that the transaction has ended.
     *
     * @throws IllegalTransactionStateException without a transaction of this data source, or in one that is read-only or committed
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
        refuseAfterCommit();
        Connection connection = DataSourceUtils.getConnection(dataSource);
        try {
            outbox.append(connection, events);
        } catch (SQLException e) {
            throw new IllegalStateException("append events: " + e.getMessage(), e);
        } finally {
            DataSourceUtils.releaseConnection(connection, dataSource);
        }
    }

    /** Finds out only if events were raised before the commit too. */
    private static void refuseAfterCommit() {
        for (TransactionSynchronization s : TransactionSynchronizationManager.getSynchronizations()) {
            if (s instanceof End end) {
                if (end.committed) {
                    throw new IllegalTransactionStateException("the transaction is committed: raise events before its commit");
                }
                return;
            }
        }
        TransactionSynchronizationManager.registerSynchronization(new End());
    }

    private static final class End implements TransactionSynchronization {
        private boolean committed;

        @Override
        public int getOrder() {
            return HIGHEST_PRECEDENCE;
        }

        @Override
        public void afterCommit() {
            committed = true;
        }
    }
}
