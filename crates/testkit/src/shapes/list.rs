//! The schemas, one for each way in which rows of two sites can stand in each other's way.

use super::Shape;

/// All shapes.
pub const SHAPES: [Shape; 50] = [
    Shape {
        name: "unique column",
        sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, v);
              INSERT INTO t VALUES(101, 'x', 0), (102, 'y', 0);",
        tables: &["t"],
        columns: &["!id:id name:word? v:any"],
        policies: &[],
    },
    Shape {
        name: "two unique columns",
        sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b INT UNIQUE, v);
              INSERT INTO t VALUES(101, 'x', 7, 0), (102, 'y', 8, 0), (103, 'z', 9, 0);",
        tables: &["t"],
        columns: &["!id:id a:word? b:num? v:any"],
        policies: &[],
    },
    Shape {
        name: "unique under NOCASE",
        sql: "CREATE TABLE t(k TEXT PRIMARY KEY, mail TEXT COLLATE NOCASE UNIQUE, v);
              INSERT INTO t VALUES('x', 'x', 0), ('y', NULL, 0);",
        tables: &["t"],
        columns: &["!k:word mail:word? v:any"],
        policies: &[],
    },
    Shape {
        name: "key under NOCASE",
        sql: "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, a INT, b INT UNIQUE);
              INSERT INTO t VALUES('x', 0, 7), ('y', 1, 8);",
        tables: &["t"],
        columns: &["!k:word a:any b:num?"],
        policies: &[],
    },
    Shape {
        name: "composite unique",
        sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INT, v, UNIQUE(a, b));
              INSERT INTO t VALUES(101, 'x', 0, 0), (102, 'y', 1, 0), (103, 'a0', 2, 0);",
        tables: &["t"],
        columns: &["!id:id a:word? b:few v:any"],
        policies: &[],
    },
    Shape {
        name: "overlapping composite unique",
        sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b INT, c INT, UNIQUE(a, b), UNIQUE(b, c));
              INSERT INTO t VALUES(101, 7, 7, 7), (102, 8, 8, 8), (103, 0, 1, 2);",
        tables: &["t"],
        columns: &["!id:id a:few b:few c:few?"],
        policies: &[],
    },
    Shape {
        name: "partial unique",
        sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, mail TEXT COLLATE NOCASE, act INT, v);
              CREATE UNIQUE INDEX ti ON t(mail) WHERE act = 1;
              INSERT INTO t VALUES(101, 'a0', 1, 0), (102, 'A0', 0, 0), (103, 'b0', 0, 0);",
        tables: &["t"],
        columns: &["!id:id mail:word act:flag v:any"],
        policies: &[],
    },
    Shape {
        name: "unique expressions",
        sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INT, v);
              CREATE UNIQUE INDEX ti ON t(lower(a), b + 1);
              CREATE UNIQUE INDEX tj ON t(v % 40) WHERE b > 0;
              INSERT INTO t VALUES(101, 'x', 0, 0), (102, 'a0', 0, 1), (103, 'b0', 1, 2);",
        tables: &["t"],
        columns: &["!id:id a:word? b:few v:any"],
        policies: &[],
    },
    Shape {
        name: "unique generated column",
        sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INT, g TEXT AS (upper(a) || CAST(b AS INT)));
              CREATE UNIQUE INDEX ti ON t(g);
              INSERT INTO t(id, a, b) VALUES(101, 'x', 0), (102, 'a0', 0), (103, 'b0', 1);",
        tables: &["t"],
        columns: &["!id:id a:word b:few?"],
        policies: &[],
    },
    Shape {
        name: "without rowid",
        sql: "CREATE TABLE t(a TEXT, b INT, u INT UNIQUE, v, PRIMARY KEY(a, b)) WITHOUT ROWID;
              INSERT INTO t VALUES('x', 0, 7, 0), ('a0', 1, NULL, 0);",
        tables: &["t"],
        columns: &["!a:word !b:few u:num? v:any"],
        policies: &[],
    },
    Shape {
        name: "no key, one unique column",
        sql: "CREATE TABLE t(a INT, u TEXT UNIQUE);
              INSERT INTO t VALUES(0, 'x'), (1, NULL), (1, 'a0');",
        tables: &["t"],
        columns: &["a:few u:word?"],
        policies: &[],
    },
    Shape {
        name: "INT key, and numbers that are equal",
        sql: "CREATE TABLE t(k INT PRIMARY KEY, u REAL UNIQUE, v);
              INSERT INTO t VALUES(7, 7.5, 0), (8, 8, 0);",
        tables: &["t"],
        columns: &["!k:num u:few? v:any"],
        policies: &[],
    },
    Shape {
        name: "child of an integer key",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, w);
              INSERT INTO p VALUES(101, 0), (102, 0); INSERT INTO c VALUES(101, 101, 0), (102, NULL, 0);",
        tables: &["p", "c"],
        columns: &["!id:id v:any", "!id:id p:p.id? w:any"],
        policies: &[],
    },
    Shape {
        name: "child of a text key",
        sql: "CREATE TABLE p(k TEXT PRIMARY KEY, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) $A, w);
              INSERT INTO p VALUES('x', 0), ('a0', 0); INSERT INTO c VALUES(101, 'x', 0), (102, NULL, 0);",
        tables: &["p", "c"],
        columns: &["!k:word v:any", "!id:id p:p.k? w:any"],
        policies: &[],
    },
    Shape {
        name: "child that needs its parent",
        sql: "CREATE TABLE p(k TEXT PRIMARY KEY, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT NOT NULL DEFAULT 'x' REFERENCES p(k) $A, w);
              INSERT INTO p VALUES('x', 0), ('a0', 0); INSERT INTO c VALUES(101, 'a0', 0), (102, 'x', 0);",
        tables: &["p", "c"],
        columns: &["!k:word v:any", "!id:id p:p.k w:any"],
        policies: &[],
    },
    Shape {
        name: "child with a default parent",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p INT DEFAULT 101 REFERENCES p(id) $A, w);
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO c VALUES(101, 102, 0), (102, 101, 0);",
        tables: &["p", "c"],
        columns: &["!id:id name:word?", "!id:id p:p.id? w:any"],
        policies: &[],
    },
    Shape {
        name: "child of a unique column",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(code) $A, w);
              INSERT INTO p VALUES(101, 'x', 0), (102, 'a0', 0); INSERT INTO c VALUES(101, 'x', 0), (102, 'a0', 0);",
        tables: &["p", "c"],
        columns: &["!id:id code:word v:any", "!id:id p:p.code? w:any"],
        policies: &[],
    },
    Shape {
        name: "child of a composite key",
        sql: "CREATE TABLE p(a TEXT, b INT, v, PRIMARY KEY(a, b)) WITHOUT ROWID;
              CREATE TABLE c(id INTEGER PRIMARY KEY, x TEXT, y INT, w, FOREIGN KEY(x, y) REFERENCES p(a, b) $A);
              INSERT INTO p VALUES('x', 0, 0), ('a0', 1, 0); INSERT INTO c VALUES(101, 'x', 0, 0), (102, NULL, 1, 0);",
        tables: &["p", "c"],
        columns: &["!a:word !b:few v:any", "!id:id x:p.a? y:p.b w:any"],
        policies: &[],
    },
    Shape {
        name: "child of a composite unique key",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, a TEXT, b INT, UNIQUE(a, b));
              CREATE TABLE c(id INTEGER PRIMARY KEY, x TEXT, y INT, w, FOREIGN KEY(x, y) REFERENCES p(a, b) $A);
              INSERT INTO p VALUES(101, 'x', 0), (102, 'a0', 1); INSERT INTO c VALUES(101, 'x', 0, 0), (102, 'a0', 1, 0);",
        tables: &["p", "c"],
        columns: &["!id:id a:word? b:few", "!id:id x:p.a? y:p.b w:any"],
        policies: &[],
    },
    Shape {
        name: "self reference",
        sql: "CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n(id) $A, v);
              INSERT INTO n VALUES(101, NULL, 0), (102, 101, 0), (103, 103, 0);",
        tables: &["n"],
        columns: &["!id:id up:n.id? v:any"],
        policies: &[],
    },
    Shape {
        name: "self reference by text",
        sql: "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k) $A, u INT UNIQUE);
              INSERT INTO n VALUES('x', NULL, 7), ('y', 'x', NULL), ('z', 'y', 8);",
        tables: &["n"],
        columns: &["!k:word up:n.k? u:num?"],
        policies: &[],
    },
    Shape {
        name: "names unique among siblings",
        sql: "CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n(id) $A, name TEXT, UNIQUE(up, name));
              INSERT INTO n VALUES(101, NULL, 'x'), (102, 101, 'a0'), (103, 101, 'a1');",
        tables: &["n"],
        columns: &["!id:id up:n.id? name:word"],
        policies: &[],
    },
    Shape {
        name: "mutual references",
        sql: "CREATE TABLE a(id INTEGER PRIMARY KEY, b INT REFERENCES b(id) $A, u INT UNIQUE);
              CREATE TABLE b(id INTEGER PRIMARY KEY, a INT REFERENCES a(id) $A, v);
              INSERT INTO a VALUES(101, NULL, 7), (102, NULL, 8); INSERT INTO b VALUES(101, 101, 0), (102, NULL, 0);
              UPDATE a SET b = 101 WHERE id = 102;",
        tables: &["a", "b"],
        columns: &["!id:id b:b.id? u:num?", "!id:id a:a.id? v:any"],
        policies: &[],
    },
    Shape {
        name: "mutual references by text",
        sql: "CREATE TABLE a(k TEXT PRIMARY KEY, b TEXT REFERENCES b(k) $A, v);
              CREATE TABLE b(k TEXT PRIMARY KEY, a TEXT REFERENCES a(k) $A, u INT UNIQUE);
              INSERT INTO a VALUES('x', NULL, 0); INSERT INTO b VALUES('x', 'x', 7), ('y', NULL, 8);",
        tables: &["a", "b"],
        columns: &["!k:word b:b.k? v:any", "!k:word a:a.k? u:num?"],
        policies: &[],
    },
    Shape {
        name: "circle of three",
        sql: "CREATE TABLE a(k TEXT PRIMARY KEY, r INT REFERENCES c(id) $A);
              CREATE TABLE b(id INTEGER PRIMARY KEY, r TEXT REFERENCES a(k) $A, u INT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, r INT REFERENCES b(id) $A);
              INSERT INTO a VALUES('x', NULL); INSERT INTO b VALUES(101, 'x', 7); INSERT INTO c VALUES(101, 101);",
        tables: &["a", "b", "c"],
        columns: &["!k:word r:c.id?", "!id:id r:a.k? u:num?", "!id:id r:b.id?"],
        policies: &[],
    },
    Shape {
        name: "three generations",
        sql: "CREATE TABLE g(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE p(id INTEGER PRIMARY KEY, g INT REFERENCES g(id) $A, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, w);
              INSERT INTO g VALUES(101, 'x'); INSERT INTO p VALUES(101, 101, 0); INSERT INTO c VALUES(101, 101, 0);",
        tables: &["g", "p", "c"],
        columns: &["!id:id name:word?", "!id:id g:g.id? v:any", "!id:id p:p.id? w:any"],
        policies: &[],
    },
    Shape {
        name: "two parents",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE q(k TEXT PRIMARY KEY, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, q TEXT REFERENCES q(k) $A);
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO q VALUES('x', 0), ('a0', 0);
              INSERT INTO c VALUES(101, 101, 'x'), (102, 102, NULL);",
        tables: &["p", "q", "c"],
        columns: &["!id:id name:word?", "!k:word v:any", "!id:id p:p.id? q:q.k?"],
        policies: &[],
    },
    Shape {
        name: "one column, two parents",
        sql: "CREATE TABLE p(k TEXT PRIMARY KEY, v);
              CREATE TABLE q(k TEXT PRIMARY KEY, u INT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, r TEXT REFERENCES p(k) ON UPDATE CASCADE REFERENCES q(k), w);
              INSERT INTO p VALUES('a0', 0), ('b0', 0); INSERT INTO q VALUES('a0', 7), ('b0', 8);
              INSERT INTO c VALUES(101, 'a0', 0);",
        tables: &["p", "q", "c"],
        columns: &["!k:word v:any", "!k:word u:num?", "!id:id r:p.k? w:any"],
        policies: &[],
    },
    Shape {
        name: "key made of two references",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE q(k TEXT PRIMARY KEY, v);
              CREATE TABLE j(p INT REFERENCES p(id) $A, q TEXT REFERENCES q(k) $A, w, PRIMARY KEY(p, q)) WITHOUT ROWID;
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO q VALUES('x', 0), ('a0', 0);
              INSERT INTO j VALUES(101, 'x', 0);",
        tables: &["p", "q", "j"],
        columns: &["!id:id name:word?", "!k:word v:any", "!p:p.id !q:q.k w:any"],
        policies: &[],
    },
    Shape {
        name: "one to one",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE d(id INTEGER PRIMARY KEY REFERENCES p(id) $A, bio, u INT UNIQUE);
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO d VALUES(101, 0, 7);",
        tables: &["p", "d"],
        columns: &["!id:id name:word?", "!id:p.id bio:any u:num?"],
        policies: &[],
    },
    Shape {
        name: "unique under a parent",
        sql: "CREATE TABLE p(k TEXT PRIMARY KEY, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) $A, slot INT, UNIQUE(p, slot));
              INSERT INTO p VALUES('x', 0), ('a0', 0); INSERT INTO c VALUES(101, 'x', 0), (102, 'a0', 0);",
        tables: &["p", "c"],
        columns: &["!k:word v:any", "!id:id p:p.k? slot:few"],
        policies: &[],
    },
    Shape {
        name: "key that is a reference, and its own children",
        sql: "CREATE TABLE p(k TEXT PRIMARY KEY, v);
              CREATE TABLE m(k TEXT PRIMARY KEY REFERENCES p(k) $A, u INT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, m TEXT REFERENCES m(k) $A);
              INSERT INTO p VALUES('x', 0), ('a0', 0); INSERT INTO m VALUES('x', 7); INSERT INTO c VALUES(101, 'x');",
        tables: &["p", "m", "c"],
        columns: &["!k:word v:any", "!k:p.k u:num?", "!id:id m:m.k?"],
        policies: &[],
    },
    Shape {
        name: "CHECK over two columns",
        sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, lo INT, hi INT, u INT UNIQUE, CHECK(lo <= hi));
              INSERT INTO t VALUES(101, 0, 9, 7), (102, 3, 5, NULL);",
        tables: &["t"],
        columns: &["!id:id lo:low hi:high u:num?"],
        policies: &[],
    },
    Shape {
        name: "CHECK over a reference",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, n INT NOT NULL,
                  CHECK(p IS NOT NULL OR n > 1));
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO c VALUES(101, 101, 0), (102, NULL, 2);",
        tables: &["p", "c"],
        columns: &["!id:id name:word?", "!id:id p:p.id? n:few"],
        policies: &[],
    },
    Shape {
        name: "STRICT and NOT NULL",
        sql: "CREATE TABLE p(k TEXT PRIMARY KEY NOT NULL, n INT NOT NULL UNIQUE) STRICT;
              CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT NOT NULL REFERENCES p(k) $A, x ANY, n INT) STRICT;
              INSERT INTO p VALUES('x', 7), ('a0', 8); INSERT INTO c VALUES(101, 'x', 'y', 0);",
        tables: &["p", "c"],
        columns: &["!k:word n:num", "!id:id p:p.k x:word n:any"],
        policies: &[],
    },
    Shape {
        name: "singleton",
        sql: "CREATE TABLE one(id INTEGER PRIMARY KEY CHECK(id = 101), p INT REFERENCES p(id) $A, v);
              CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO one VALUES(101, 101, 0);",
        tables: &["p", "one"],
        columns: &["!id:id name:word?", "!id:id p:p.id? v:any"],
        policies: &[],
    },
    Shape {
        name: "integer key that names its row",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, v);
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO c VALUES(101, 101, 0);",
        tables: &["p", "c"],
        columns: &["!id:id name:word?", "!id:id p:p.id? v:any"],
        policies: &["p.identity=key"],
    },
    Shape {
        name: "text key that does not name its row",
        sql: "CREATE TABLE p(k TEXT PRIMARY KEY, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) $A, w);
              INSERT INTO p VALUES('x', 0), ('a0', 0); INSERT INTO c VALUES(101, 'x', 0), (102, 'a0', 0);",
        tables: &["p", "c"],
        columns: &["!k:word v:any", "!id:id p:p.k? w:any"],
        policies: &["p.identity=birth"],
    },
    Shape {
        name: "unified tags",
        sql: "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, tag INT REFERENCES tag(id) $A, w);
              INSERT INTO tag VALUES(101, 'x'), (102, 'y'); INSERT INTO c VALUES(101, 101, 0), (102, 102, 0);",
        tables: &["tag", "c"],
        columns: &["!id:id name:word", "!id:id tag:tag.id? w:any"],
        policies: &["tag.on_unique=unify"],
    },
    Shape {
        name: "unified tags of many",
        sql: "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE UNIQUE);
              CREATE TABLE doc(id INTEGER PRIMARY KEY, u INT UNIQUE);
              CREATE TABLE j(doc INT REFERENCES doc(id) $A, tag INT REFERENCES tag(id) $A, PRIMARY KEY(doc, tag));
              INSERT INTO tag VALUES(101, 'x'), (102, 'y'); INSERT INTO doc VALUES(101, 7), (102, 8);
              INSERT INTO j VALUES(101, 101);",
        tables: &["tag", "doc", "j"],
        columns: &["!id:id name:word", "!id:id u:num?", "!doc:doc.id !tag:tag.id"],
        policies: &["tag.on_unique=unify"],
    },
    Shape {
        name: "unified tags of teams",
        sql: "CREATE TABLE team(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE tag(id INTEGER PRIMARY KEY, team INT REFERENCES team(id) $A, name TEXT, gone INT);
              CREATE UNIQUE INDEX tag_name ON tag(team, name) WHERE gone = 1;
              CREATE TABLE c(id INTEGER PRIMARY KEY, tag INT REFERENCES tag(id) $A, w);
              INSERT INTO team VALUES(101, 'x'), (102, 'y'); INSERT INTO tag VALUES(101, 101, 'x', 1), (102, 102, 'x', 1);
              INSERT INTO c VALUES(101, 101, 0), (102, 102, 0);",
        tables: &["team", "tag", "c"],
        columns: &["!id:id name:word", "!id:id team:team.id? name:word? gone:few", "!id:id tag:tag.id? w:any"],
        policies: &["tag.on_unique=unify", "team.on_unique=unify"],
    },
    Shape {
        name: "unified tags by two keys",
        sql: "CREATE TABLE tag(k TEXT PRIMARY KEY, name TEXT UNIQUE, slug TEXT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, tag TEXT REFERENCES tag(k) $A, w);
              INSERT INTO tag VALUES('x', 'x', 'x'), ('y', 'y', 'y'); INSERT INTO c VALUES(101, 'x', 0), (102, 'y', 0);",
        tables: &["tag", "c"],
        columns: &["!k:word name:word? slug:word?", "!id:id tag:tag.k? w:any"],
        policies: &["tag.on_unique=unify"],
    },
    Shape {
        name: "foreign keys ignored",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, slot INT, UNIQUE(p, slot));
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO c VALUES(101, 101, 0), (102, 102, 0);",
        tables: &["p", "c"],
        columns: &["!id:id name:word?", "!id:id p:p.id? slot:few"],
        policies: &["fk=ignore"],
    },
    Shape {
        name: "references that are not declared",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p_id INT, slot INT, UNIQUE(p_id, slot));
              INSERT INTO p VALUES(101, 'x'), (102, 'y'); INSERT INTO c VALUES(101, 101, 0), (102, 102, 0);",
        tables: &["p", "c"],
        columns: &["!id:id name:word?", "!id:id p_id:p.id? slot:few"],
        policies: &["c.refs=p_id:p"],
    },
    Shape {
        name: "parents spelled otherwise",
        sql: "CREATE TABLE p(k TEXT COLLATE NOCASE PRIMARY KEY, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) $A, w);
              INSERT INTO p VALUES('a0', 0), ('b0', 1); INSERT INTO c VALUES(101, 'A0', 0), (102, 'b0', 0);",
        tables: &["p", "c"],
        columns: &["!k:word v:any", "!id:id p:p.k? w:any"],
        policies: &[],
    },
    Shape {
        name: "parents spelled otherwise without rowids",
        sql: "CREATE TABLE p(k TEXT COLLATE NOCASE PRIMARY KEY, v) WITHOUT ROWID;
              CREATE TABLE c(p TEXT COLLATE NOCASE PRIMARY KEY REFERENCES p(k) $A, w) WITHOUT ROWID;
              INSERT INTO p VALUES('a0', 0), ('b0', 1); INSERT INTO c VALUES('A0', 0), ('b0', 0);",
        tables: &["p", "c"],
        columns: &["!k:word v:any", "!p:p.k w:any"],
        policies: &[],
    },
    Shape {
        name: "numbers that are references",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, n INT UNIQUE);
              CREATE TABLE c(id INTEGER PRIMARY KEY REFERENCES p(id) $A, w);
              INSERT INTO p VALUES(101, 0), (102, 1); INSERT INTO c VALUES(101, 0);",
        tables: &["p", "c"],
        columns: &["!id:id n:num?", "!id:p.id w:any"],
        policies: &["c.identity=birth"],
    },
    Shape {
        name: "keys that tell apart what their parents do not",
        sql: "CREATE TABLE p(k TEXT COLLATE NOCASE PRIMARY KEY, v);
              CREATE TABLE c(k TEXT PRIMARY KEY REFERENCES p(k) $A, w);
              INSERT INTO p VALUES('a0', 0), ('b0', 1), ('c0', 1); INSERT INTO c VALUES('A0', 0), ('a0', 1);",
        tables: &["p", "c"],
        columns: &["!k:word v:any", "!k:word w:any"],
        policies: &[],
    },
    Shape {
        name: "parents whose keys are numbers of two kinds",
        sql: "CREATE TABLE p(k PRIMARY KEY NOT NULL, v);
              CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(k) $A, w);
              INSERT INTO p VALUES(1, 0), (2.0, 1); INSERT INTO c VALUES(101, 1.0, 0), (102, 2, 0);",
        tables: &["p", "c"],
        columns: &["!k:kind v:any", "!id:id p:p.k? w:any"],
        policies: &[],
    },
    Shape {
        name: "parents whose keys a CHECK reads",
        sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, n INT UNIQUE, m INT, CHECK(n < m));
              CREATE TABLE c(id INTEGER PRIMARY KEY, n INT REFERENCES p(n) $A, w);
              INSERT INTO p VALUES(101, 1, 10), (102, 2, 11); INSERT INTO c VALUES(101, 1, 0), (102, 2, 0);",
        tables: &["p", "c"],
        columns: &["!id:id n:num? m:any", "!id:id n:p.n? w:any"],
        policies: &[],
    },
];
