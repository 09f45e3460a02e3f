package synqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
)

func TestEveryConnectionOfAPoolHasTheFunctions(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a.db"), "WAL")
	library, _, _ := sqlite3.Version()
	var conns []*sql.Conn
	for range [8]int{} {
		conn, err := db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	equal(t, "connections", db.Stats().OpenConnections, 8)
	for _, conn := range conns {
		var version string
		row := conn.QueryRowContext(context.Background(), "SELECT json_extract(synqlite_version(), '$.sqlite')")
		if err := row.Scan(&version); err != nil {
			t.Fatal(err)
		}
		equal(t, "SQLite", version, library)
		conn.Close()
	}
}

// With too-old.mod the library is 3.37.
func TestAnSQLiteThatIsTooOldIsRefused(t *testing.T) {
	library, number, _ := sqlite3.Version()
	if number >= 3038000 {
		t.Skip("this library is new enough: ", library)
	}
	db := open(t, filepath.Join(t.TempDir(), "a.db"), "WAL")
	want := "synqlite: usage: this program has SQLite " + library + ". SynQLite needs 3.38 or later"
	if err := db.Ping(); !strings.Contains(fmt.Sprint(err), want) {
		t.Fatal(err)
	}
}

// With a name of its own the file does not tell the entry point, and an empty name is no absent one.
func TestTheEntryPointIsToBeNamed(t *testing.T) {
	connect := func(name string, entry string) error {
		driver := &sqlite3.SQLiteDriver{
			ConnectHook: func(c *sqlite3.SQLiteConn) error { return c.LoadExtension(name, entry) },
		}
		conn, err := driver.Open(":memory:")
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := connect(extension, entry); err != nil {
		t.Fatal(err)
	}
	if err := connect(extension, ""); !strings.Contains(fmt.Sprint(err), "undefined symbol") {
		t.Fatal("an empty entry point:", err)
	}
	conn, err := (&sqlite3.SQLiteDriver{Extensions: []string{extension}}).Open(":memory:")
	if err != nil {
		t.Fatal("Extensions goes by the name of the file: ", err)
	}
	conn.Close()
}

func TestSitesMeetByPath(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode string) {
		home, laptop := pair(t, mode)
		equal(t, "mode", texts(t, laptop.DB, "PRAGMA journal_mode"), strings.ToLower(mode))
		run(t, home.DB, "UPDATE person SET name = 'Anna' WHERE id = 1")
		run(t, home.DB, "INSERT INTO person(name, email) VALUES('Eve', 'x@example.org')")
		run(t, home.DB, "DELETE FROM person WHERE id = 2")
		time.Sleep(10 * time.Millisecond)
		run(t, laptop.DB, "UPDATE person SET email = 'anna@example.org' WHERE id = 1")
		run(t, laptop.DB, "INSERT INTO person(name, email) VALUES('Joe', 'x@example.org')")
		run(t, laptop.DB, "INSERT INTO note(person, body) VALUES(2, 'of Bob')")

		done := ask[synced](t, laptop, "synqlite_sync(?)", home.path)
		equal(t, "conflicts", done.Conflicts, 2)
		equal(t, "sent", done.Sent.Rows, 3)
		equal(t, "received", done.Received.Rows, 3)
		same(t, home, laptop)
		shown := texts(t, home.DB, "SELECT name || ' ' || email FROM person ORDER BY id")
		equal(t, "rows", shown, "Anna anna@example.org Eve x@example.org")
	})
}

func TestConflictsAreListedAndSettled(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode string) {
		home, laptop := pair(t, mode)
		run(t, home.DB, "INSERT INTO person(name, email) VALUES('Eve', 'x@example.org')")
		time.Sleep(10 * time.Millisecond)
		run(t, laptop.DB, "INSERT INTO person(name, email) VALUES('Joe', 'x@example.org')")
		ask[ignored](t, laptop, "synqlite_sync()")

		open := ask[listed](t, laptop, "synqlite_conflicts()").Conflicts
		equal(t, "conflicts", len(open), 1)
		equal(t, "kind", open[0].Kind+" "+open[0].Declared, "unique UNIQUE (email)")
		equal(t, "displaced", open[0].Displaced["name"], any("Joe"))
		id := texts(t, laptop.DB, "SELECT id FROM synqlite_conflicts WHERE kind = 'unique' AND tbl = 'person'")
		equal(t, "id", id, open[0].ID)

		// Eve stays displaced instead, and open until somebody discards her.
		done := ask[settled](t, laptop, "synqlite_settle(?, 'prefer')", id)
		equal(t, "settled", done, settled{id, 1})
		open = ask[listed](t, laptop, "synqlite_conflicts()").Conflicts
		equal(t, "displaced", open[0].Displaced["name"], any("Eve"))
		done = ask[settled](t, laptop, "synqlite_settle(?, 'discard')", open[0].ID)
		equal(t, "settled", done, settled{open[0].ID, 0})
		ask[ignored](t, laptop, "synqlite_sync()")
		same(t, home, laptop)
		name := texts(t, home.DB, "SELECT name FROM person WHERE email = 'x@example.org'")
		equal(t, "preferred", name, "Joe")
	})
}

func TestSitesMeetInAFolder(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode string) {
		home, _ := pair(t, mode)
		stick := "file://" + filepath.Join(t.TempDir(), "stick") + "/"
		ask[ignored](t, home, "synqlite_remote_add('stick', ?)", stick)
		equal(t, "sent", ask[synced](t, home, "synqlite_push('stick')").Sent.Rows, 3)
		phone := site{path: filepath.Join(t.TempDir(), "phone.db")}
		ask[ignored](t, home, "synqlite_clone(?, ?)", stick, phone.path)
		phone.DB = open(t, phone.path, mode)
		run(t, phone.DB, "INSERT INTO note(person, body) VALUES(2, 'from the phone')")
		equal(t, "sent", ask[synced](t, phone, "synqlite_push()").Sent.Rows, 1)
		run(t, home.DB, "UPDATE person SET name = 'Bobby' WHERE id = 2")
		equal(t, "inserted", ask[synced](t, home, "synqlite_pull(?)", stick).Merged.Inserted, 1)
		equal(t, "sent", ask[synced](t, home, "synqlite_sync('stick')").Sent.Rows, 1)
		equal(t, "updated", ask[synced](t, phone, "synqlite_sync()").Merged.Updated, 1)
		same(t, home, phone)
	})
}

func TestChangesSinceATokenAreToldWhoeverMadeThem(t *testing.T) {
	home, laptop := pair(t, "WAL")
	first := ask[changed](t, laptop, "synqlite_changes()")
	equal(t, "all rows", len(first.Changes), 3)
	run(t, home.DB, "UPDATE person SET name = 'Anna' WHERE id = 1")
	run(t, laptop.DB, "DELETE FROM note")
	ask[ignored](t, laptop, "synqlite_sync()")

	next := ask[changed](t, laptop, "synqlite_changes(?)", first.Token)
	var told []string
	for _, each := range next.Changes {
		told = append(told, fmt.Sprint(each.Table, each.Row, each.Change, each.Values["name"]))
	}
	sort.Strings(told)
	equal(t, "changes", strings.Join(told, " "), "note1delete<nil> person1updateAnna")
	equal(t, "no more", len(ask[changed](t, laptop, "synqlite_changes(?)", next.Token).Changes), 0)
}

func TestErrorsTellTheirKind(t *testing.T) {
	home, laptop := pair(t, "WAL")
	plain := open(t, filepath.Join(t.TempDir(), "plain.db"), "WAL")
	run(t, plain, "CREATE TABLE t(a)")
	for _, each := range []struct {
		db               queryer
		kind, text, call string
		args             []any
	}{
		{plain, "refused", "is not a replica", "synqlite_status()", nil},
		{home, "refused", "has no remote called origin", "synqlite_sync()", nil},
		{laptop, "usage", "no option forced", `synqlite_sync('{"forced": true}')`, nil},
		{laptop, "network", "cannot reach the hub at ", "synqlite_sync('http://127.0.0.1:9/notes')", nil},
		{home, "conflict", "exists already", "synqlite_clone(?, ?)", []any{home.path, laptop.path}},
	} {
		_, err := try[ignored](each.db, each.call, each.args...)
		fails(t, err, each.kind, each.text)
	}
	equal(t, "kind of an error of SQLite", kind(plain.QueryRow("SELECT nosuch()").Err()), "")
}

func TestACallInATransactionIsRefused(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode string) {
		home, laptop := pair(t, mode)
		tx, err := laptop.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE person SET name = 'Anna' WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		_, err = try[synced](tx, "synqlite_sync()")
		fails(t, err, "locked", "a transaction is open on this connection")
		// The pool takes another connection, and that one waits.
		_, err = try[synced](laptop, `synqlite_sync('{"wait": 0}')`)
		fails(t, err, "locked", "is locked by another program")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		equal(t, "sent", ask[synced](t, laptop, "synqlite_sync()").Sent.Rows, 1)
		same(t, home, laptop)
	})
}

func TestRowsThatAreOpenAreInTheWayInDeleteModeAndNotInWAL(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode string) {
		_, laptop := pair(t, mode)
		run(t, laptop.DB, "UPDATE person SET name = 'Anna' WHERE id = 1")
		rows, err := laptop.Query("SELECT name FROM person")
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		defer rows.Close()
		done, err := try[synced](laptop, `synqlite_sync('{"wait": 0}')`)
		if mode == "DELETE" {
			fails(t, err, "locked", "is locked by another program")
			rows.Close()
			done, err = try[synced](laptop, `synqlite_sync('{"wait": 0}')`)
		}
		if err != nil || done.Sent.Rows != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
	})
}

// The error is of the deadline, and what the call did is done.
func TestADeadlineDoesNotEndACall(t *testing.T) {
	home, laptop := pair(t, "WAL")
	run(t, laptop.DB, "UPDATE person SET name = 'Anna' WHERE id = 1")
	tx, err := home.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE person SET name = 'Bobby' WHERE id = 2"); err != nil {
		t.Fatal(err)
	}
	committed := time.AfterFunc(500*time.Millisecond, func() { tx.Commit() })
	defer committed.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	since := time.Now()
	var text string
	err = laptop.QueryRowContext(ctx, "SELECT synqlite_sync()").Scan(&text)
	equal(t, "error", err, context.DeadlineExceeded)
	if took := time.Since(since); took < 300*time.Millisecond {
		t.Fatalf("it came back after %v, while home.db was locked", took)
	}
	equal(t, "what the call did all the same",
		texts(t, home.DB, "SELECT name FROM person ORDER BY id"), "Anna Bobby")
}

// The program of the guide prints what the guide says.
func TestTheGuide(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guides/go.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(begin string) string {
		_, rest, found := strings.Cut(string(page), "\n```"+begin)
		text, _, ended := strings.Cut(rest, "\n```")
		if !found || !ended {
			t.Fatalf("the guide has no block %q", begin)
		}
		return text
	}
	folder := t.TempDir()
	source, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, "todo")
	if err := os.WriteFile(source, []byte(block("go\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	formatted, err := process("gofmt", "-l", source)
	if err != nil || formatted != "" {
		t.Fatal("gofmt would change it: ", formatted, err)
	}
	if _, err := process("go", "build", "-buildvcs=false", "-o", binary, source); err != nil {
		t.Fatal(err)
	}
	program := exec.Command(binary)
	program.Dir = folder
	printed, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	_, told, found := strings.Cut(block("console\n")+"\n", "\n$ go run .\n")
	if !found {
		t.Fatal("the guide does not say what it prints")
	}
	equal(t, "output", string(printed), told)
}
