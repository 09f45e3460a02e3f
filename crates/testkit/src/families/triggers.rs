//! The application's own triggers: they write other replicated tables, and the row itself.

use super::{Context, Family};
use crate::random::Random;

pub(super) const FAMILY: Family =
    Family::written("triggers", &["doc", "audit", "total"], schema, statement);

fn schema() -> String {
    "
    CREATE TABLE doc(id INTEGER PRIMARY KEY, title, rev INT DEFAULT 0, note);
    CREATE TABLE audit(what, n);
    CREATE TABLE total(k TEXT PRIMARY KEY, n INT) WITHOUT ROWID;
    INSERT INTO total VALUES('new', 0), ('gone', 0);
    INSERT INTO doc(id, title) VALUES(101, 'a'), (102, 'b'), (103, 'c');
    CREATE TRIGGER doc_new AFTER INSERT ON doc BEGIN
        INSERT INTO audit VALUES('new', NEW.title);
        UPDATE total SET n = NEW.title WHERE k = 'new';
        UPDATE doc SET note = 'seen ' || NEW.title WHERE id = NEW.id;
    END;
    CREATE TRIGGER doc_title AFTER UPDATE OF title ON doc BEGIN
        UPDATE doc SET rev = rev + 1 WHERE id = NEW.id;
        INSERT INTO audit VALUES('title', NEW.title);
    END;
    CREATE TRIGGER doc_gone BEFORE DELETE ON doc BEGIN
        INSERT INTO audit VALUES('gone', OLD.title);
        INSERT OR REPLACE INTO total VALUES('gone', OLD.rev || '/' || OLD.title);
    END;
    CREATE TRIGGER doc_check BEFORE UPDATE OF note ON doc WHEN NEW.note = 'bad' BEGIN
        SELECT RAISE(ABORT, 'bad note');
    END;
    "
    .into()
}

fn statement(r: &mut Random, c: &Context) -> String {
    let n = c.n + 1_000;
    let some = 101 + r.below(8);
    let or = c.or_partial(r);
    match r.below(12) {
        0..3 => format!("INSERT INTO doc(id, title) VALUES({}, {n})", c.id()),
        3 => format!("INSERT {or} INTO doc(id, title) VALUES({}, {n})", c.contested_id(r)),
        4 | 5 => format!("UPDATE doc SET title = {n} WHERE id = {some}"),
        6 => format!("UPDATE doc SET title = {n} WHERE id >= {some}"),
        7 => format!("UPDATE doc SET note = 'n{n}' WHERE id <= {some}"),
        8 => format!("UPDATE doc SET note = 'bad' WHERE id = {some}"),
        9 => format!("DELETE FROM doc WHERE id = {some}"),
        10 => format!("UPDATE total SET n = {n}"),
        _ => format!("DELETE FROM audit WHERE n < {}", n.saturating_sub(30)),
    }
}
