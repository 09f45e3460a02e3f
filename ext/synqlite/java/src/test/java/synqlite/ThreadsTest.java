package synqlite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Threads write to both sites while another synchronizes them. So do other processes: the shell writes, the
 * command synchronizes. A new process finds each row whose INSERT reported success.
 */
class ThreadsTest extends Sites {
    private static final String INSERT = "INSERT INTO note(person, body) VALUES(1, ";
    /** With a rollback journal, writers that never pause hardly leave others a moment to write. */
    private static final Map<String, Integer> PAUSE_MS = Map.of("WAL", 1, "DELETE", 3);

    private final Set<String> told = ConcurrentHashMap.newKeySet();
    private final AtomicInteger during = new AtomicInteger();
    private volatile boolean syncing;
    private volatile boolean over;

    private interface Insert {
        void body(String body) throws Exception;
    }

    private Callable<Void> writer(String name, int pause, Insert insert) {
        return () -> {
            for (int n = 0; !over; n++) {
                insert.body(name + n);
                told.add(name + n);
                if (syncing) {
                    during.incrementAndGet();
                }
                Thread.sleep(pause);
            }
            return null;
        };
    }

    private Insert in(Connection db) {
        return body -> run(db, INSERT + "?)", body);
    }

    private void byShell(String body) throws Exception {
        Done done = shell("laptop.db", "PRAGMA busy_timeout = 30000; " + INSERT + "'" + body + "')");
        assertEquals(0, done.status(), done.printed());
    }

    /** One that meets another in the midst of a merge may be told to come again. */
    private Void synchronize(Connection laptop) throws SQLException {
        try {
            long end = System.nanoTime() + 2_000_000_000L;
            for (int done = 0; done < 3 || System.nanoTime() < end; ) {
                syncing = true;
                try {
                    ask(laptop, "synqlite_sync()");
                    done++;
                } catch (SQLException e) {
                    if (!kind(e).equals("locked")) {
                        throw e;
                    }
                } finally {
                    syncing = false;
                }
            }
            return null;
        } finally {
            over = true;
        }
    }

    private Void synchronizeElsewhere() throws Exception {
        while (!COMMAND.isEmpty() && !over) {
            Done done = process(folder, COMMAND, "sync", "laptop.db");
            assertTrue(done.status() == 0 || done.status() == 3, done.printed());
        }
        return null;
    }

    private static void together(List<Callable<Void>> all) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(all.size());
        try {
            List<Future<Void>> running = new ArrayList<>();
            for (Callable<Void> each : all) {
                running.add(threads.submit(each));
            }
            for (Future<Void> each : running) {
                each.get();
            }
        } finally {
            threads.shutdown();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"WAL", "DELETE"})
    void noAcknowledgedRowIsLost(String mode) throws Exception {
        assumeTrue(hasShell(), "there is no sqlite3, which counts afterwards");
        Connection home = home(mode);
        Connection laptop = laptop(home, mode);
        Connection[] writers = {connect("laptop.db", mode), connect("laptop.db", mode), connect("home.db", mode)};
        told.add("first");
        int pause = PAUSE_MS.get(mode);
        together(List.of(() -> synchronize(laptop), this::synchronizeElsewhere, writer("d", pause, this::byShell),
                writer("a", pause, in(writers[0])), writer("b", pause, in(writers[1])),
                writer("c", pause, in(writers[2]))));
        assertTrue(during.get() >= 10, during + " rows were written during a synchronization");
        ask(laptop, "synqlite_sync()");
        same(home, laptop);
        close();
        for (String name : List.of("home.db", "laptop.db")) {
            Done done = shell(name, "PRAGMA integrity_check; SELECT body FROM note");
            List<String> lines = done.printed().lines().toList();
            assertEquals("ok", lines.get(0), done.printed());
            List<String> kept = lines.subList(1, lines.size());
            assertEquals(new TreeSet<>(told), new TreeSet<>(kept));
            assertEquals(told.size(), kept.size());
        }
        System.out.println(mode + ": " + told.size() + " rows, " + during + " of them during a synchronization"
                + (COMMAND.isEmpty() ? "; no other process synchronized: SYNQLITE_COMMAND names no command" : ""));
    }
}
