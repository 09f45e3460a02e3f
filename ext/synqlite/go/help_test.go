// Package synqlite has tests only: of the loadable extension in programs that use go-sqlite3.
//
//	SYNQLITE_EXTENSION=.../libsynqlite.so go test ./...
//
// SYNQLITE_COMMAND names the command, for the tests in which another process synchronizes.
package synqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mattn/go-sqlite3"
)

const (
	entry  = "sqlite3_synqlite_init"
	schema = `
		CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE);
		CREATE TABLE note(id INTEGER PRIMARY KEY, person INT NOT NULL REFERENCES person(id) ON DELETE CASCADE,
			body TEXT, stars INT DEFAULT 0 CHECK(stars BETWEEN 0 AND 5));
		INSERT INTO person(name, email) VALUES('Ann', 'ann@example.org'), ('Bob', 'bob@example.org');
		INSERT INTO note(person, body) VALUES(1, 'first');`
)

var (
	extension = os.Getenv("SYNQLITE_EXTENSION")
	command   = os.Getenv("SYNQLITE_COMMAND")
)

func TestMain(m *testing.M) {
	if _, err := os.Stat(extension); err != nil {
		fmt.Fprintln(os.Stderr, "SYNQLITE_EXTENSION is to name the file of the extension:", err)
		os.Exit(1)
	}
	sql.Register("synqlite", &sqlite3.SQLiteDriver{
		ConnectHook: func(c *sqlite3.SQLiteConn) error { return c.LoadExtension(extension, entry) },
	})
	os.Exit(m.Run())
}

// What the functions answer, as far as tests look at it.
type (
	counts struct{ Rows int }
	synced struct {
		Sent, Received counts
		Merged         struct{ Inserted, Updated, Deleted int }
		Conflicts      int
	}
	listed struct {
		Conflicts []struct {
			ID, Kind, Declared string
			Displaced          map[string]any
		}
	}
	changed struct {
		Changes []struct {
			Table, Row, Change string
			Values             map[string]any
		}
		Token      string
		Anew, More bool
	}
	settled struct {
		Settled string
		Open    int
	}
	digested struct{ Digest string }
	pending  struct {
		Pending  map[string]int
		Unfolded int
	}
	ignored struct{}
)

// queryer is a pool, a connection of one, or a transaction.
type queryer interface {
	QueryRow(query string, args ...any) *sql.Row
}

// try calls a function of SynQLite.
func try[T any](db queryer, call string, args ...any) (answer T, err error) {
	var text []byte
	if err = db.QueryRow("SELECT "+call, args...).Scan(&text); err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

// ask calls a function that has to succeed.
func ask[T any](t *testing.T, db queryer, call string, args ...any) T {
	t.Helper()
	answer, err := try[T](db, call, args...)
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return answer
}

// kind is what stands after `synqlite: ` in an error, and empty if SynQLite did not make it.
func kind(err error) string {
	var from sqlite3.Error
	if !errors.As(err, &from) {
		return ""
	}
	rest, ours := strings.CutPrefix(from.Error(), "synqlite: ")
	kind, _, _ := strings.Cut(rest, ": ")
	if !ours {
		return ""
	}
	return kind
}

// fails says that an error is SynQLite's, of a kind, and has a text in it.
func fails(t *testing.T, err error, want, text string) {
	t.Helper()
	if kind(err) != want || !strings.Contains(fmt.Sprint(err), text) {
		t.Fatalf("not %s, %q: %v", want, text, err)
	}
}

func run(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// texts are the values of a query of one column, in order.
func texts(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return strings.Join(all, " ")
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, not %v", what, got, want)
	}
}

// open is a pool on a file, in a journal mode. Its connections wait for others.
func open(t *testing.T, path, mode string) *sql.DB {
	t.Helper()
	db, err := sql.Open("synqlite", "file:"+path+"?_foreign_keys=on&_busy_timeout=30000&_journal_mode="+mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// site is a replica.
type site struct {
	*sql.DB
	path string
}

// pair is a replica and a clone of it, in a folder of their own.
func pair(t *testing.T, mode string) (home, laptop site) {
	t.Helper()
	folder := t.TempDir()
	home.path, laptop.path = filepath.Join(folder, "home.db"), filepath.Join(folder, "laptop.db")
	home.DB = open(t, home.path, mode)
	run(t, home.DB, schema)
	ask[ignored](t, home, "synqlite_init()")
	ask[ignored](t, home, "synqlite_clone(?, ?)", home.path, laptop.path)
	laptop.DB = open(t, laptop.path, mode)
	return home, laptop
}

// inBothModes runs a test in WAL and in DELETE mode.
func inBothModes(t *testing.T, test func(t *testing.T, mode string)) {
	for _, mode := range []string{"WAL", "DELETE"} {
		t.Run(mode, func(t *testing.T) { test(t, mode) })
	}
}

// same says that two sites show the same, and that every constraint holds.
func same(t *testing.T, one, other site) {
	t.Helper()
	digests := [2]string{}
	for i, db := range []site{one, other} {
		digests[i] = ask[digested](t, db, "synqlite_digest()").Digest
		equal(t, "integrity", texts(t, db.DB, "PRAGMA integrity_check"), "ok")
		equal(t, "references", texts(t, db.DB, "SELECT count(*) FROM pragma_foreign_key_check"), "0")
	}
	equal(t, "digests", digests[0], digests[1])
}

// together runs all at once, and reports each failure.
func together(t *testing.T, all ...func() error) {
	t.Helper()
	var wait sync.WaitGroup
	for _, each := range all {
		wait.Add(1)
		go func(each func() error) {
			defer wait.Done()
			if err := each(); err != nil {
				t.Error(err)
			}
		}(each)
	}
	wait.Wait()
}

// process runs a program; what it prints is in the error of one that fails.
func process(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}
