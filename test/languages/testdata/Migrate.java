import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.util.List;
import liquibase.Liquibase;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.DirectoryResourceAccessor;
import org.flywaydb.core.Flyway;

/** Applies migrations: tool, JDBC URL and file, any number of times. */
public class Migrate {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < args.length; i += 3) {
            Path file = Path.of(args[i + 2]);
            switch (args[i]) {
                case "flyway" -> Flyway.configure().dataSource(args[i + 1], null, null).locations("filesystem:" + file.getParent()).load().migrate();
                case "liquibase" -> liquibase(args[i + 1], file);
                default -> throw new IllegalArgumentException(args[i]);
            }
        }
    }

    /** Applies the SQL below the two lines of a changelog. */
    static void liquibase(String url, Path file) throws Exception {
        String changeset = "--changeset shop:outbox stripComments:false" + (url.startsWith("jdbc:postgresql") ? " splitStatements:false" : "");
        Files.writeString(file.resolveSibling("changelog.sql"), "--liquibase formatted sql\n" + changeset + "\n" + Files.readString(file));
        try (Connection connection = DriverManager.getConnection(url);
                DirectoryResourceAccessor files = new DirectoryResourceAccessor(file.getParent())) {
            var database = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(connection));
            var liquibase = new Liquibase("changelog.sql", files, database);
            liquibase.update("");
        }
    }
}
