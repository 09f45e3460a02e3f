//! The schemas of random states: each way in which rows can stand in each other's way.

/// A schema, where `$A` stands for what a foreign key does, and its policies.
pub type Shape = (&'static str, &'static [(&'static str, &'static str)]);

/// What foreign keys do.
pub const ACTIONS: [&str; 7] = [
    "ON DELETE CASCADE",
    "ON DELETE SET NULL ON UPDATE CASCADE",
    "ON DELETE RESTRICT ON UPDATE SET NULL",
    "ON UPDATE CASCADE",
    "ON DELETE CASCADE ON UPDATE SET NULL",
    "ON DELETE SET DEFAULT ON UPDATE SET DEFAULT",
    "ON DELETE SET NULL ON UPDATE SET NULL",
];

pub const SHAPES: [Shape; 30] = [
    ("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b INT UNIQUE)", &[]),
    ("CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, a INT, b INT, UNIQUE(a, b))", &[]),
    (
        "CREATE TABLE t(a INT, b TEXT, c INT);
         CREATE UNIQUE INDEX ta ON t(a) WHERE c > 1; CREATE UNIQUE INDEX tb ON t(lower(b), a + 1)",
        &[],
    ),
    (
        "CREATE TABLE t(a TEXT, b INT, u INT UNIQUE, lo INT, CHECK(lo <= b), PRIMARY KEY(a, b))
         WITHOUT ROWID",
        &[],
    ),
    (
        "CREATE TABLE p(id INTEGER PRIMARY KEY, u INT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p INT DEFAULT 1 REFERENCES p(id) $A, s INT, UNIQUE(p, s));
         CREATE TABLE d(id INTEGER PRIMARY KEY, c INT REFERENCES c(id) $A, p INT REFERENCES p(id))",
        &[],
    ),
    (
        "CREATE TABLE p(k TEXT PRIMARY KEY, u TEXT COLLATE NOCASE UNIQUE);
         CREATE TABLE c(k TEXT PRIMARY KEY, p TEXT DEFAULT 'a' REFERENCES p(k) $A,
             q TEXT REFERENCES p(u) $A, UNIQUE(p, q));
         CREATE TABLE j(p TEXT REFERENCES p(k) $A, c TEXT REFERENCES c(k) ON DELETE CASCADE, v INT,
             PRIMARY KEY(p, c)) WITHOUT ROWID",
        &[],
    ),
    ("CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n(id) $A, u INT UNIQUE)", &[]),
    ("CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n(id) $A, u INT, UNIQUE(up, u))", &[]),
    ("CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k) $A, u INT UNIQUE)", &[]),
    ("CREATE TABLE n(k TEXT UNIQUE, up TEXT REFERENCES n(k) $A, u INT, UNIQUE(up, u))", &[]),
    (
        "CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n(id) $A, u INT UNIQUE, CHECK(up < 7),
             CHECK(up <> u))",
        &[],
    ),
    (
        "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT NOT NULL DEFAULT 'a' REFERENCES n(k) $A, u INT UNIQUE)",
        &[],
    ),
    ("CREATE TABLE t(id INTEGER PRIMARY KEY, n INT, u INT, CHECK(n < 8))", &[("t.refs", "n:t")]),
    (
        "CREATE TABLE a(id INTEGER PRIMARY KEY, b INT REFERENCES b(id) $A, u INT UNIQUE);
         CREATE TABLE b(id INTEGER PRIMARY KEY, a INT REFERENCES a(id) $A, u INT UNIQUE)",
        &[],
    ),
    (
        "CREATE TABLE a(k TEXT PRIMARY KEY, b TEXT REFERENCES b(k) $A, v INT);
         CREATE TABLE b(k TEXT PRIMARY KEY, a TEXT REFERENCES a(k) $A, u INT UNIQUE)",
        &[],
    ),
    (
        "CREATE TABLE a(k TEXT PRIMARY KEY, r INT REFERENCES c(id) $A);
         CREATE TABLE b(id INTEGER PRIMARY KEY, r TEXT REFERENCES a(k) $A, u INT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, r INT REFERENCES b(id) $A)",
        &[],
    ),
    (
        "CREATE TABLE p(a INT, b TEXT, PRIMARY KEY(a, b)) WITHOUT ROWID;
         CREATE TABLE c(x, a INT, b TEXT, u INT UNIQUE, FOREIGN KEY(a, b) REFERENCES p(a, b) $A)",
        &[],
    ),
    (
        "CREATE TABLE p(id INTEGER PRIMARY KEY, a TEXT, b INT, UNIQUE(a, b));
         CREATE TABLE c(id INTEGER PRIMARY KEY, x TEXT, y INT, w, FOREIGN KEY(x, y) REFERENCES p(a, b) $A)",
        &[],
    ),
    (
        "CREATE TABLE p(id INTEGER PRIMARY KEY, u INT UNIQUE);
         CREATE TABLE d(id INTEGER PRIMARY KEY REFERENCES p(id) $A, v INT UNIQUE);
         CREATE TABLE e(id INTEGER PRIMARY KEY, d INT REFERENCES d(id) $A)",
        &[],
    ),
    (
        "CREATE TABLE p(k TEXT PRIMARY KEY, v);
         CREATE TABLE m(k TEXT PRIMARY KEY REFERENCES p(k) $A, u INT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, m TEXT REFERENCES m(k) $A)",
        &[],
    ),
    (
        "CREATE TABLE p(id INTEGER PRIMARY KEY, u INT UNIQUE);
         CREATE TABLE c(k INT PRIMARY KEY, p INT REFERENCES p(id) $A, w INT UNIQUE)",
        &[("p.on_unique", "unify")],
    ),
    (
        "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k) $A, u INT UNIQUE)",
        &[("n.on_unique", "unify")],
    ),
    (
        "CREATE TABLE p(k TEXT PRIMARY KEY, a INT, b INT, CHECK(a <= b));
         CREATE UNIQUE INDEX pa ON p(a) WHERE b > 1;
         CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT NOT NULL REFERENCES p(k) $A, u INT UNIQUE)",
        &[],
    ),
    (
        "CREATE TABLE p(id INTEGER PRIMARY KEY, u INT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, u INT UNIQUE)",
        &[("fk", "ignore")],
    ),
    (
        "CREATE TABLE t(id INTEGER PRIMARY KEY, r INT, u INT UNIQUE);
         CREATE TABLE s(k TEXT PRIMARY KEY, r INT, q TEXT, UNIQUE(r, q))",
        &[("s.refs", "r:t,q:s")],
    ),
    (
        "CREATE TABLE p(k TEXT PRIMARY KEY, v);
         CREATE TABLE q(k TEXT PRIMARY KEY, u INT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, r TEXT REFERENCES p(k) ON UPDATE CASCADE REFERENCES q(k), w)",
        &[],
    ),
    (
        "CREATE TABLE p(k TEXT COLLATE NOCASE PRIMARY KEY, u INT UNIQUE);
         CREATE TABLE c(k TEXT PRIMARY KEY REFERENCES p(k) $A, w INT UNIQUE)",
        &[],
    ),
    (
        "CREATE TABLE p(id INTEGER PRIMARY KEY, u INT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, n INT NOT NULL,
             CHECK(p IS NOT NULL OR n > 1))",
        &[],
    ),
    (
        "CREATE TABLE p(k TEXT PRIMARY KEY NOT NULL, n INT NOT NULL UNIQUE) STRICT;
         CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT NOT NULL REFERENCES p(k) $A, x ANY, n INT) STRICT",
        &[],
    ),
    (
        "CREATE TABLE p(id INTEGER PRIMARY KEY AUTOINCREMENT, u INT UNIQUE);
         CREATE TABLE c(p INT REFERENCES p(id) $A, n INT, u INT UNIQUE, PRIMARY KEY(p, n)) WITHOUT ROWID",
        &[("p.delete", "last")],
    ),
];
