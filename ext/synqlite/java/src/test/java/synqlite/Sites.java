package synqlite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;
import org.sqlite.SQLiteConfig;

/** A folder for replicas, and connections to them that are closed at the end of a test. */
abstract class Sites {
    static final String EXTENSION = System.getenv().getOrDefault("SYNQLITE_EXTENSION", "");
    static final String COMMAND = System.getenv().getOrDefault("SYNQLITE_COMMAND", "");
    private static final Pattern KIND = Pattern.compile("\\bsynqlite: (\\w+): ");
    private static final String[] SCHEMA = {
        "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE)",
        "CREATE TABLE note(id INTEGER PRIMARY KEY, person INT NOT NULL REFERENCES person(id) ON DELETE CASCADE,"
                + " body TEXT, stars INT DEFAULT 0 CHECK(stars BETWEEN 0 AND 5))",
        "INSERT INTO person(name, email) VALUES('Ann', 'ann@example.org'), ('Bob', 'bob@example.org')",
        "INSERT INTO note(person, body) VALUES(1, 'first')",
    };

    @TempDir Path folder;
    private final List<Connection> open = new ArrayList<>();

    @BeforeAll
    static void theExtensionIsThere() {
        assertTrue(Files.isRegularFile(Path.of(EXTENSION)), "SYNQLITE_EXTENSION is to name the file of the extension");
    }

    @AfterEach
    void close() throws SQLException {
        for (Connection each : open) {
            each.close();
        }
    }

    String at(String name) {
        return folder.resolve(name).toString();
    }

    static SQLiteConfig config(String mode) {
        SQLiteConfig config = new SQLiteConfig();
        config.enableLoadExtension(true);
        config.enforceForeignKeys(true);
        config.setJournalMode(SQLiteConfig.JournalMode.valueOf(mode));
        config.setBusyTimeout(30_000);
        return config;
    }

    /** A connection with the extension. It waits for others. */
    Connection connect(String name, String mode) throws SQLException {
        Connection db = DriverManager.getConnection("jdbc:sqlite:" + at(name), config(mode).toProperties());
        synchronized (open) {
            open.add(db);
        }
        ask(db, "load_extension(?)", EXTENSION);
        return db;
    }

    /** A replica, home.db. */
    Connection home(String mode) throws SQLException {
        Connection home = connect("home.db", mode);
        for (String sql : SCHEMA) {
            run(home, sql);
        }
        ask(home, "synqlite_init()");
        return home;
    }

    /** A clone of home.db, laptop.db. */
    Connection laptop(Connection home, String mode) throws SQLException {
        ask(home, "synqlite_clone(?, ?)", at("home.db"), at("laptop.db"));
        return connect("laptop.db", mode);
    }

    static void run(Connection db, String sql, Object... arguments) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            bind(statement, arguments);
            statement.executeUpdate();
        }
    }

    /** What a call answers. */
    static String ask(Connection db, String call, Object... arguments) throws SQLException {
        List<String> rows = texts(db, "SELECT " + call, arguments);
        assertEquals(1, rows.size());
        return rows.get(0);
    }

    /** A part of what a call answered. */
    static String part(Connection db, String json, String path) throws SQLException {
        return ask(db, "json_extract(?, ?)", json, path);
    }

    /** The first column of a query. */
    static List<String> texts(Connection db, String sql, Object... arguments) throws SQLException {
        List<String> found = new ArrayList<>();
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            bind(statement, arguments);
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    found.add(rows.getString(1));
                }
            }
        }
        return found;
    }

    private static void bind(PreparedStatement statement, Object... arguments) throws SQLException {
        for (int i = 0; i < arguments.length; i++) {
            statement.setObject(i + 1, arguments[i]);
        }
    }

    /** What stands after `synqlite: ` in an error, and empty if SynQLite did not make it. */
    static String kind(SQLException error) {
        Matcher found = KIND.matcher(error.getMessage());
        return found.find() ? found.group(1) : "";
    }

    /** The call fails with an error of SynQLite of that kind, which has a text in it. */
    static void fails(String kind, String text, Connection db, String call, Object... arguments) {
        SQLException error = assertThrows(SQLException.class, () -> ask(db, call, arguments));
        assertEquals(kind, kind(error), error.getMessage());
        assertTrue(error.getMessage().contains(text), error.getMessage());
    }

    /** Both show the same, and every constraint holds. */
    static void same(Connection one, Connection other) throws SQLException {
        String digest = "json_extract(synqlite_digest(), '$.digest')";
        assertEquals(ask(one, digest), ask(other, digest));
        for (Connection db : List.of(one, other)) {
            assertEquals(List.of("ok"), texts(db, "PRAGMA integrity_check"));
            assertEquals(List.of(), texts(db, "PRAGMA foreign_key_check"));
        }
    }

    /** What a program prints, and its status. */
    record Done(int status, String printed) {}

    static Done process(Path in, String... words) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(words).directory(in.toFile()).redirectErrorStream(true).start();
        String printed = new String(process.getInputStream().readAllBytes());
        return new Done(process.waitFor(), printed);
    }

    /** The shell of SQLite, which is another process with another SQLite. */
    Done shell(String name, String sql) throws IOException, InterruptedException {
        return process(folder, "sqlite3", name, sql);
    }

    static boolean hasShell() {
        try {
            return process(Path.of("."), "sqlite3", "--version").status() == 0;
        } catch (IOException missing) {
            return false;
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
