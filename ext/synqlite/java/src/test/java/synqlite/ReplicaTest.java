package synqlite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the functions do, and what they refuse. */
class ReplicaTest extends Sites {
    private static final String CHANGES = "SELECT value->>'table' || ' ' || (value->>'row') || ' ' || (value->>'change')"
            + " FROM json_each(?, '$.changes') ORDER BY 1";

    @ParameterizedTest
    @ValueSource(strings = {"WAL", "DELETE"})
    void sitesMeetByPath(String mode) throws Exception {
        Connection home = home(mode);
        Connection laptop = laptop(home, mode);
        assertEquals(List.of(mode.toLowerCase()), texts(laptop, "PRAGMA journal_mode"));
        run(home, "UPDATE person SET name = 'Anna' WHERE id = 1");
        run(home, "INSERT INTO person(name, email) VALUES('Eve', 'x@example.org')");
        run(home, "DELETE FROM person WHERE id = 2");
        Thread.sleep(10);
        run(laptop, "UPDATE person SET email = 'anna@example.org' WHERE id = 1");
        run(laptop, "INSERT INTO person(name, email) VALUES('Joe', 'x@example.org')");
        run(laptop, "INSERT INTO note(person, body) VALUES(2, 'of Bob')");

        String done = ask(laptop, "synqlite_sync(?)", at("home.db"));
        assertEquals("2", part(laptop, done, "$.conflicts"));
        assertEquals("3", part(laptop, done, "$.sent.rows"));
        assertEquals("3", part(laptop, done, "$.received.rows"));
        same(home, laptop);
        assertEquals(List.of("Anna anna@example.org", "Eve x@example.org"),
                texts(home, "SELECT name || ' ' || email FROM person ORDER BY id"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"WAL", "DELETE"})
    void conflictsAreListedAndSettled(String mode) throws Exception {
        Connection home = home(mode);
        Connection laptop = laptop(home, mode);
        run(home, "INSERT INTO person(name, email) VALUES('Eve', 'x@example.org')");
        Thread.sleep(10);
        run(laptop, "INSERT INTO person(name, email) VALUES('Joe', 'x@example.org')");
        ask(laptop, "synqlite_sync()");

        String list = "SELECT kind || ', ' || declared || ', ' || (displaced->>'name') FROM synqlite_conflicts";
        assertEquals(List.of("unique, UNIQUE (email), Joe"), texts(laptop, list));
        String id = ask(laptop, "id FROM synqlite_conflicts WHERE kind = 'unique' AND tbl = 'person'");
        assertEquals(id, part(laptop, ask(laptop, "synqlite_conflicts()"), "$.conflicts[0].id"));

        // Eve stays displaced instead, and open until somebody discards her.
        assertEquals("1", part(laptop, ask(laptop, "synqlite_settle(?, 'prefer')", id), "$.open"));
        assertEquals(List.of("unique, UNIQUE (email), Eve"), texts(laptop, list));
        String ids = ask(laptop, "json_group_array(id) FROM synqlite_conflicts");
        assertEquals("0", part(laptop, ask(laptop, "synqlite_settle(?, 'discard')", ids), "$.open"));
        ask(laptop, "synqlite_sync()");
        same(home, laptop);
        assertEquals(List.of("Joe"), texts(home, "SELECT name FROM person WHERE email = 'x@example.org'"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"WAL", "DELETE"})
    void sitesMeetInAFolder(String mode) throws SQLException {
        Connection home = home(mode);
        String stick = "file://" + at("stick") + "/";
        ask(home, "synqlite_remote_add('stick', ?)", stick);
        assertEquals("3", part(home, ask(home, "synqlite_push('stick')"), "$.sent.rows"));
        ask(home, "synqlite_clone(?, ?)", stick, at("phone.db"));
        Connection phone = connect("phone.db", mode);
        run(phone, "INSERT INTO note(person, body) VALUES(2, 'from the phone')");
        assertEquals("1", part(phone, ask(phone, "synqlite_push()"), "$.sent.rows"));
        run(home, "UPDATE person SET name = 'Bobby' WHERE id = 2");
        assertEquals("1", part(home, ask(home, "synqlite_pull(?)", stick), "$.merged.inserted"));
        assertEquals("1", part(home, ask(home, "synqlite_sync('stick')"), "$.sent.rows"));
        assertEquals("1", part(phone, ask(phone, "synqlite_sync()"), "$.merged.updated"));
        same(home, phone);
    }

    @Test
    void changesSinceATokenAreToldWhoeverMadeThem() throws SQLException {
        Connection home = home("WAL");
        Connection laptop = laptop(home, "WAL");
        String first = ask(laptop, "synqlite_changes()");
        assertEquals(3, texts(laptop, CHANGES, first).size());
        run(home, "UPDATE person SET name = 'Anna' WHERE id = 1");
        run(laptop, "DELETE FROM note");
        ask(laptop, "synqlite_sync()");

        String next = ask(laptop, "synqlite_changes(?)", part(laptop, first, "$.token"));
        assertEquals(List.of("note 1 delete", "person 1 update"), texts(laptop, CHANGES, next));
        String last = ask(laptop, "synqlite_changes(?)", part(laptop, next, "$.token"));
        assertEquals(List.of(), texts(laptop, CHANGES, last));
    }

    @Test
    void errorsTellTheirKind() throws SQLException {
        Connection home = home("WAL");
        Connection laptop = laptop(home, "WAL");
        Connection plain = connect("plain.db", "WAL");
        run(plain, "CREATE TABLE t(a)");
        fails("refused", "is not a replica", plain, "synqlite_status()");
        fails("refused", "has no remote called origin", home, "synqlite_sync()");
        fails("usage", "no option forced", laptop, "synqlite_sync('{\"forced\": true}')");
        fails("network", "cannot reach the hub at ", laptop, "synqlite_sync('http://127.0.0.1:9/notes')");
        fails("conflict", "exists already", home, "synqlite_clone(?, ?)", at("home.db"), at("laptop.db"));
        SQLException other = assertThrows(SQLException.class, () -> ask(plain, "nosuch()"));
        assertEquals("", kind(other));
    }

    /** JDBC begins a transaction with any statement, the call itself too, unless it commits by itself. */
    @ParameterizedTest
    @ValueSource(strings = {"WAL", "DELETE"})
    void aCallInATransactionIsRefused(String mode) throws SQLException {
        Connection home = home(mode);
        Connection laptop = laptop(home, mode);
        String what = "a transaction is open on this connection";
        laptop.setAutoCommit(false);
        run(laptop, "UPDATE person SET name = 'Anna' WHERE id = 1");
        fails("locked", what, laptop, "synqlite_sync()");
        fails("locked", "is locked by another program", connect("laptop.db", mode), "synqlite_sync('{\"wait\": 0}')");
        laptop.commit();
        fails("locked", what, laptop, "synqlite_sync()");
        laptop.setAutoCommit(true);
        assertEquals("1", part(laptop, ask(laptop, "synqlite_sync()"), "$.sent.rows"));
        same(home, laptop);
    }

    @ParameterizedTest
    @ValueSource(strings = {"WAL", "DELETE"})
    void aResultSetThatIsOpenIsInTheWayInDeleteModeAndNotInWal(String mode) throws SQLException {
        Connection home = home(mode);
        Connection laptop = laptop(home, mode);
        run(laptop, "UPDATE person SET name = 'Anna' WHERE id = 1");
        String done = null;
        try (PreparedStatement query = laptop.prepareStatement("SELECT name FROM person");
                ResultSet rows = query.executeQuery()) {
            assertTrue(rows.next());
            if (mode.equals("DELETE")) {
                fails("locked", "is reading the database. Finish it first, or use WAL", laptop, "synqlite_sync()");
            } else {
                done = ask(laptop, "synqlite_sync()");
            }
        }
        if (mode.equals("DELETE")) {
            done = ask(laptop, "synqlite_sync()");
        }
        assertEquals("1", part(laptop, done, "$.sent.rows"));
    }
}
