package synqlite

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// acknowledged are the rows whose INSERT reported success, by what is in them.
type acknowledged struct {
	sync.Mutex
	bodies map[string]bool
}

func (a *acknowledged) add(body string) {
	a.Lock()
	defer a.Unlock()
	a.bodies[body] = true
}

// differ says how what a new process finds in a file differs from what was acknowledged.
func (a *acknowledged) differ(path string) error {
	out, err := process("sqlite3", path, "PRAGMA integrity_check; SELECT body FROM note")
	if err != nil {
		return err
	}
	lines := strings.Fields(out)
	kept := map[string]bool{}
	for _, body := range lines[1:] {
		kept[body] = true
	}
	lost, unknown := 0, 0
	for body := range a.bodies {
		if !kept[body] {
			lost++
		}
	}
	for body := range kept {
		if !a.bodies[body] {
			unknown++
		}
	}
	if lines[0] != "ok" || lost+unknown > 0 || len(kept) != len(lines)-1 {
		return fmt.Errorf("%s: integrity %s, %d rows of which %d are different and %d unknown, %d of %d are lost",
			path, lines[0], len(lines)-1, len(kept), unknown, lost, len(a.bodies))
	}
	return nil
}

// Goroutines write to both sites while another synchronizes them. So do other processes: the shell writes,
// the command synchronizes. A new process finds each row whose INSERT reported success.
func TestNoAcknowledgedRowIsLost(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("there is no sqlite3, which counts afterwards")
	}
	inBothModes(t, func(t *testing.T, mode string) {
		home, laptop := pair(t, mode)
		laptop.SetMaxOpenConns(4)
		told := acknowledged{bodies: map[string]bool{"first": true}}
		var over, syncing atomic.Bool
		var during atomic.Int32
		// With a rollback journal, writers that never pause hardly leave others a moment to write.
		pause := map[string]time.Duration{"WAL": 200 * time.Microsecond, "DELETE": 2 * time.Millisecond}[mode]

		writer := func(name string, insert func(body string) error) func() error {
			return func() error {
				for n := 0; !over.Load(); n++ {
					body := fmt.Sprint(name, n)
					if err := insert(body); err != nil {
						return fmt.Errorf("%s: %w", body, err)
					}
					told.add(body)
					if syncing.Load() {
						during.Add(1)
					}
					time.Sleep(pause)
				}
				return nil
			}
		}
		in := func(db site) func(string) error {
			return func(body string) error {
				_, err := db.Exec("INSERT INTO note(person, body) VALUES(1, ?)", body)
				return err
			}
		}
		shell := func(body string) error {
			_, err := process("sqlite3", laptop.path,
				"PRAGMA busy_timeout = 30000; INSERT INTO note(person, body) VALUES(1, '"+body+"')")
			return err
		}
		// One that meets another in the midst of a merge may be told to come again.
		synchronize := func() error {
			defer over.Store(true)
			end := time.Now().Add(2 * time.Second)
			for done := 0; done < 3 || time.Now().Before(end); {
				syncing.Store(true)
				_, err := try[synced](laptop, "synqlite_sync()")
				syncing.Store(false)
				if err == nil {
					done++
				} else if kind(err) != "locked" {
					return err
				}
			}
			return nil
		}
		elsewhere := func() error {
			for command != "" && !over.Load() {
				_, err := process(command, "sync", laptop.path)
				var status *exec.ExitError
				if err != nil && !(errors.As(err, &status) && status.ExitCode() == 3) {
					return err
				}
			}
			return nil
		}
		together(t, synchronize, elsewhere, writer("a", in(laptop)), writer("b", in(laptop)),
			writer("c", in(home)), writer("d", shell))
		if during.Load() < 10 {
			t.Fatalf("only %d rows were written during a synchronization", during.Load())
		}
		ask[ignored](t, laptop, "synqlite_sync()")
		same(t, home, laptop)
		home.Close()
		laptop.Close()
		for _, path := range []string{home.path, laptop.path} {
			if err := told.differ(path); err != nil {
				t.Error(err)
			}
		}
		t.Logf("%d rows, %d of them during a synchronization", len(told.bodies), during.Load())
	})
	if command == "" {
		t.Log("no other process synchronized: SYNQLITE_COMMAND names no command")
	}
}
