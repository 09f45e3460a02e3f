package synqlite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.junit.jupiter.api.Test;
import org.sqlite.SQLiteConnection;
import org.sqlite.SQLiteJDBCLoader;

/** How the extension gets into connections. */
class LoadTest extends Sites {
    private static final String LOAD = "SELECT load_extension('" + EXTENSION.replace("'", "''") + "')";

    @Test
    void aConnectionHasTheFunctionsOfItsOwnSQLite() throws SQLException {
        Connection db = connect("a.db", "WAL");
        assertEquals(SQLiteJDBCLoader.getVersion().replaceAll("\\.\\d+$", ""),
                part(db, ask(db, "synqlite_version()"), "$.sqlite"));
    }

    @Test
    void everyConnectionOfAPoolHasTheFunctions() throws SQLException {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:sqlite:" + at("a.db"));
        config.addDataSourceProperty("enable_load_extension", "true");
        config.setConnectionInitSql(LOAD);
        config.setMaximumPoolSize(4);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            List<Connection> all = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                all.add(pool.getConnection());
            }
            assertEquals(4, pool.getHikariPoolMXBean().getActiveConnections());
            for (Connection each : all) {
                assertTrue(ask(each, "synqlite_version()").contains("\"synqlite\":"));
                each.close();
            }
        }
    }

    @Test
    void loadingIsOffUntilItIsAskedForAndCanBeTurnedOffAgain() throws SQLException {
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + at("a.db"));
                Statement statement = db.createStatement()) {
            SQLException error = assertThrows(SQLException.class, () -> statement.execute(LOAD));
            assertTrue(error.getMessage().contains("not authorized"), error.getMessage());
        }
        String url = "jdbc:sqlite:" + at("a.db") + "?enable_load_extension=true";
        try (Connection db = DriverManager.getConnection(url); Statement statement = db.createStatement()) {
            statement.execute(LOAD);
            db.unwrap(SQLiteConnection.class).getDatabase().enable_load_extension(false);
            SQLException error = assertThrows(SQLException.class, () -> statement.execute(LOAD));
            assertTrue(error.getMessage().contains("not authorized"), error.getMessage());
            assertTrue(ask(db, "synqlite_version()").contains("\"synqlite\":"));
        }
    }

    /** Each class loader extracts the library of sqlite-jdbc anew: these are two SQLite in one process. */
    @Test
    void aSecondCopyOfTheDriverIsRefused() throws Exception {
        home("WAL");
        URL jar = SQLiteConnection.class.getProtectionDomain().getCodeSource().getLocation();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {jar}, ClassLoader.getPlatformClassLoader())) {
            Driver second = second(loader);
            Properties on = new Properties();
            on.setProperty("enable_load_extension", "true");
            try (Connection db = second.connect("jdbc:sqlite:" + at("other.db"), on);
                    Statement statement = db.createStatement()) {
                SQLException error = assertThrows(SQLException.class, () -> statement.execute(LOAD));
                assertEquals("usage", kind(error), error.getMessage());
                String what = "another SQLite library in this process has loaded SynQLite already";
                assertTrue(error.getMessage().contains(what), error.getMessage());
            }
        }
    }

    private static Driver second(ClassLoader loader) throws ReflectiveOperationException {
        try {
            return (Driver) loader.loadClass("org.sqlite.JDBC").getConstructor().newInstance();
        } catch (InvocationTargetException e) {
            throw new AssertionError("the second copy of the driver does not start", e.getCause());
        }
    }
}
