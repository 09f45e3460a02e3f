//! Foreign keys, groups, identity that follows from them, and the order of tables.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn keys(schema: &Schema, table: &str) -> Vec<String> {
    let table = schema.table(table).unwrap();
    table
        .foreign_keys
        .iter()
        .map(|key| {
            let parent = schema.table(&key.parent).unwrap();
            assert_eq!(parent.name, key.parent);
            let column = |&i: &usize| parent.columns[i].name.clone();
            let to: Vec<String> = key.parent_columns.iter().map(column).collect();
            assert_eq!(to, key.parent_names);
            let named = key.name.split('(').next().unwrap_or_default();
            assert_eq!(named == key.name, key.parent_columns == parent.primary_key);
            format!("{named}({})", to.join(","))
        })
        .collect()
}

fn identity(schema: &Schema, table: &str) -> Identity {
    schema.table(table).unwrap().identity
}

#[test]
fn foreign_keys_resolve_to_columns() {
    let schema = schema(
        "CREATE TABLE Parent(id INTEGER PRIMARY KEY, code TEXT UNIQUE, x, y, UNIQUE(y, x));
         CREATE TABLE pair(a, b, PRIMARY KEY(a, b));
         CREATE TABLE child(
           p REFERENCES PARENT ON DELETE CASCADE ON UPDATE SET NULL, c REFERENCES parent(CODE) ON DELETE RESTRICT,
           q, r, FOREIGN KEY(R, q) REFERENCES pair ON UPDATE SET DEFAULT, FOREIGN KEY(q, r) REFERENCES parent(x, y));",
    );
    assert_eq!(
        keys(&schema, "child"),
        ["c>parent(code)", "p>parent(id)", "q,r>parent(x,y)", "r,q>pair(a,b)"]
    );
    let child = schema.table("child").unwrap();
    let actions: Vec<_> =
        child.foreign_keys.iter().map(|k| (k.on_delete, k.on_update, k.enforced)).collect();
    use Action::*;
    assert_eq!(
        actions,
        [
            (Restrict, NoAction, true),
            (Cascade, SetNull, true),
            (NoAction, NoAction, true),
            (NoAction, SetDefault, true)
        ]
    );
    assert_eq!(child.foreign_keys[3].columns, [3, 2]);
    assert_eq!(groups(child), [vec!["p"], vec!["c"], vec!["q", "r"]]);
    let in_groups: Vec<_> = child.groups.iter().map(|group| group.foreign_keys.clone()).collect();
    assert_eq!(in_groups, [vec![1], vec![0], vec![2, 3]]);
    let kept: Vec<bool> = child.groups.iter().map(|group| group.keeps_previous).collect();
    assert_eq!(kept, [true, false, true], "an ON UPDATE action may change p, q and r");
}

#[test]
fn equal_names_are_numbered_in_one_order() {
    let parent = "CREATE TABLE p(id INTEGER PRIMARY KEY, u UNIQUE, v UNIQUE);";
    let one = schema(&format!(
        "{parent} CREATE TABLE c(a REFERENCES p(v) REFERENCES p(u), FOREIGN KEY(a) REFERENCES p)"
    ));
    let two = schema(&format!(
        "{parent} CREATE TABLE c(a REFERENCES p REFERENCES p(u), FOREIGN KEY(a) REFERENCES p(v))"
    ));
    assert_eq!(keys(&one, "c"), ["a>p(id)", "a>p(u)", "a>p(v)"]);
    assert_eq!(keys(&one, "c"), keys(&two, "c"));
}

#[test]
fn keys_that_merges_cannot_follow_are_plain_values() {
    let conn = open(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, plain, part, ci TEXT, e, u UNIQUE, g AS (plain) STORED UNIQUE);
         CREATE TABLE nokey(a); CREATE TABLE pair(a, b, PRIMARY KEY(a, b)); CREATE TABLE local(id INTEGER PRIMARY KEY);
         CREATE VIEW v AS SELECT 1 AS a;
         CREATE UNIQUE INDEX i ON p(part) WHERE part > 0; CREATE UNIQUE INDEX j ON p(ci COLLATE nocase);
         CREATE UNIQUE INDEX k ON p(abs(e));
         CREATE TABLE c(a REFERENCES nowhere, b REFERENCES local, d REFERENCES p(plain), e REFERENCES p(part),
           f REFERENCES p(ci), g REFERENCES p(e), h REFERENCES p(missing), i REFERENCES nokey, j REFERENCES pair,
           k REFERENCES v(a), l REFERENCES p(g), m AS (a) REFERENCES p, ok REFERENCES p(u), CHECK(b > 0))",
    );
    let schema = read(&conn, &Policies::default(), &selection(&[], &["local"])).unwrap();
    assert_eq!(keys(&schema, "c"), ["ok>p(u)"]);
    assert_eq!(schema.notes.len(), 12);
    let note = |start: &str| schema.notes.iter().find(|note| note.starts_with(start)).unwrap();
    assert!(note("c(b) references local").contains("that table is not replicated"));
    assert!(note("c(a) references nowhere").contains("no such table"));
    assert!(note("c(f) references p").contains("UNIQUE index"));
    assert!(note("c(m) references p").contains("generated column"));
}

#[test]
fn sqlite_agrees_on_what_can_be_referred_to() {
    let parent =
        "CREATE TABLE p(id INTEGER PRIMARY KEY, a TEXT COLLATE nocase, b, c, UNIQUE(b, c));
                  CREATE UNIQUE INDEX i ON p(a); CREATE UNIQUE INDEX j ON p(c COLLATE nocase);
                  CREATE UNIQUE INDEX k ON p(b) WHERE b > 0";
    for (columns, to) in [
        ("x", ""),
        ("x", "(id)"),
        ("x", "(a)"),
        ("x", "(b)"),
        ("x", "(c)"),
        ("x, y", ""),
        ("x, y", "(b, c)"),
        ("x, y", "(c, b)"),
        ("x, y", "(id, a)"),
        ("x", "(rowid)"),
    ] {
        let conn = open(&format!(
            "{parent}; CREATE TABLE c(x, y, FOREIGN KEY({columns}) REFERENCES p{to})"
        ));
        conn.pragma_update(None, "foreign_keys", true).unwrap();
        let accepted = !conn
            .execute_batch("DELETE FROM p")
            .is_err_and(|error| error.to_string().contains("foreign key mismatch"));
        let schema = read(&conn, &Policies::default(), &Selection::default()).unwrap();
        let resolved = !schema.table("c").unwrap().foreign_keys.is_empty();
        assert_eq!(resolved, accepted, "({columns}) REFERENCES p{to}");
    }
}

#[test]
fn policy_declares_logical_references() {
    let sql = "CREATE TABLE project(id INTEGER PRIMARY KEY); CREATE TABLE Task(id INTEGER PRIMARY KEY, Pid INT, owner INT,
                 done INT, r INT REFERENCES project, g AS (pid));
               CREATE TABLE pair(a, b, PRIMARY KEY(a, b)); CREATE TABLE bag(a); CREATE TABLE local(id INTEGER PRIMARY KEY)";
    let schema = schema_with(sql, &[("TASK.refs", "pid:PROJECT, owner : task,r:project")]);
    assert_eq!(keys(&schema, "task"), ["Pid>project(id)", "owner>task(id)", "r>project(id)"]);
    let enforced: Vec<bool> =
        schema.table("task").unwrap().foreign_keys.iter().map(|k| k.enforced).collect();
    assert_eq!(enforced, [false, false, true]);
    assert!(schema.table("project").unwrap().groups[0].keeps_previous);

    assert!(refused(sql, &[("tusk.refs", "pid:project")]).contains("did you mean Task?"));
    assert!(
        refused(sql, &[("task.refs", "pit:project")])
            .contains("no stored column pit; did you mean Pid?")
    );
    assert!(refused(sql, &[("task.refs", "g:project")]).contains("no stored column g"));
    assert!(refused(sql, &[("task.refs", "pid:projects")]).contains("did you mean project?"));
    let odd = "CREATE TABLE t(id INTEGER PRIMARY KEY, \"a:b\" INT, \"c,d\" INT)";
    for name in ["a:b", "c,d"] {
        let said = refused(odd, &[("t.refs", &format!("{name}:t"))]);
        assert!(said.contains(&format!("cannot name column {name}")), "{said}");
    }
    assert!(refused(sql, &[("task.refs", "pid")]).contains("not of the form COLUMN:TABLE"));
    assert!(refused(sql, &[("task.refs", "pid:pair")]).contains("pair has several"));
    assert!(refused(sql, &[("task.refs", "pid:bag")]).contains("bag has none"));
    let local = schema_with(
        sql,
        &[("task.refs", "pid:local"), ("local_tables", "local"), ("local.refs", "id:task")],
    );
    assert_eq!(keys(&local, "task"), ["r>project(id)"]);
    assert!(local.notes[0].contains("Task.pid refers by policy to local, which is not replicated"));
}

#[test]
fn references_of_tables_that_are_not_replicated_are_pointed_out() {
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, u INT UNIQUE);
               CREATE TABLE own(id INTEGER PRIMARY KEY, a REFERENCES T, b TEXT REFERENCES t(u), c REFERENCES own)";
    let local = schema_with(sql, &[("local_tables", "own")]);
    let begins: Vec<&str> = local.notes.iter().filter_map(|note| note.split(':').next()).collect();
    assert_eq!(
        begins,
        ["own(b) references t and is not replicated", "own(a) references t and is not replicated"]
    );
    assert_eq!(local.tables[0].converted, BTreeSet::from([1]), "u is INT, b is TEXT");
    assert_eq!(schema_with(sql, &[]).notes, Vec::<String>::new());
}

#[test]
fn undeclared_references_are_pointed_out() {
    let sql = "CREATE TABLE projects(id INTEGER PRIMARY KEY); CREATE TABLE tag(id INTEGER PRIMARY KEY);
               CREATE TABLE code(id TEXT PRIMARY KEY);
               CREATE TABLE task(taskid INTEGER PRIMARY KEY, project_id INT, ProjectsID INTEGER, tags_id BIGINT,
                 tagid TEXT, code_id INT, id INT, task_id INT REFERENCES task, valid INT)";
    let notes = schema(sql).notes;
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with(
        "task.project_id to projects, task.ProjectsID to projects, task.tags_id to tag look like references"
    ));
    let declare = "--policy task.refs=project_id:projects,ProjectsID:projects,tags_id:tag";
    assert!(notes[0].ends_with(declare));
    let one = schema_with(sql, &[("projects.identity", "key")]).notes;
    assert!(one[0].starts_with("task.tags_id looks like a reference to tag"));
    assert!(one[0].ends_with("declare it with --policy task.refs=tags_id:tag"));
    let quiet = [("projects.identity", "key"), ("task.refs", "tags_id:tag")];
    assert_eq!(schema_with(sql, &quiet).notes, Vec::<String>::new());
}

#[test]
fn names_that_may_be_references() {
    let sql = "CREATE TABLE categories(id INTEGER PRIMARY KEY); CREATE TABLE boxes(id INTEGER PRIMARY KEY);
               CREATE TABLE books(id INTEGER PRIMARY KEY); CREATE TABLE wp_posts(id INTEGER PRIMARY KEY);
               CREATE TABLE note(id INTEGER PRIMARY KEY);";
    let noted = |column: &str| {
        let notes = schema(&format!("{sql} CREATE TABLE t({column} INTEGER)")).notes;
        notes.first().map(|note| note.rsplit(':').next().unwrap().to_owned())
    };
    for (column, parent) in [
        ("category_id", Some("categories")),
        ("boxId", Some("boxes")),
        ("book", Some("books")),
        ("book_id", Some("books")),
        ("post_id", Some("wp_posts")),
        ("post", None),
        ("note_id", Some("note")),
        // A number of notes, most likely.
        ("notes", None),
        ("note", None),
        ("id", None),
    ] {
        assert_eq!(noted(column).as_deref(), parent, "{column}");
    }
}

#[test]
fn a_check_that_reads_the_number_of_a_row_is_pointed_out() {
    let noted = |check: &str| {
        schema(&format!("CREATE TABLE t(id INTEGER PRIMARY KEY, a, CHECK({check}))")).notes
    };
    for check in ["id > 0", "a <> id", "typeof(id) = 'integer'"] {
        assert!(noted(check)[0].ends_with("--policy t.identity=birth"), "{check}");
    }
    for check in ["id = 1", "1 == ID", "id IS 0", "a > 0"] {
        assert_eq!(noted(check), [""; 0], "{check}");
    }
}

#[test]
fn numbers_that_may_stand_in_half_a_reference_are_pointed_out() {
    let noted = |column: &str| {
        let sql = format!(
            "CREATE TABLE o(id INTEGER PRIMARY KEY);
             CREATE TABLE line(o INT REFERENCES o, n INT NOT NULL, PRIMARY KEY(o, n));
             CREATE TABLE sent(id TEXT PRIMARY KEY, {column}, FOREIGN KEY(o, n) REFERENCES line)"
        );
        schema(&sql).notes
    };
    let said = noted("o INT, n INT");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("sent.o holds a number of o in a foreign key with n"), "{said:?}");
    for quiet in ["o INT, n INT NOT NULL", "o INT REFERENCES o, n INT"] {
        assert_eq!(noted(quiet), Vec::<String>::new());
    }
}

#[test]
fn identity_follows_from_what_the_key_means() {
    let schema = schema(
        "CREATE TABLE usual(id INTEGER PRIMARY KEY, a CHECK(a > 0));
         CREATE TABLE single(id INTEGER PRIMARY KEY CHECK(id = 1), a);
         CREATE TABLE single2(id INTEGER PRIMARY KEY, a, CHECK(rowid = 1));
         CREATE TABLE single3(id INTEGER PRIMARY KEY, a, g AS (id + 1), CHECK(g = 2));
         CREATE TABLE extra(id INTEGER PRIMARY KEY REFERENCES usual, a);
         CREATE TABLE lost(id INTEGER PRIMARY KEY REFERENCES nowhere, a);
         CREATE TABLE wide(id INTEGER PRIMARY KEY, a, FOREIGN KEY(a, id) REFERENCES pair);
         CREATE TABLE pair(a, b, PRIMARY KEY(a, b));",
    );
    use Identity::*;
    for (table, expected) in [
        ("usual", Birth),
        ("single", Key),
        ("single2", Key),
        ("single3", Key),
        ("extra", Key),
        ("lost", Birth),
        ("wide", Key),
        ("pair", Key),
    ] {
        assert_eq!(identity(&schema, table), expected, "{table}");
    }
    let logical = schema_with(
        "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(id INTEGER PRIMARY KEY)",
        &[("c.refs", "id:p")],
    );
    assert_eq!(identity(&logical, "c"), Key);
}

#[test]
fn checks_and_keys_join_columns() {
    let t = table(
        "CREATE TABLE t(a, b CHECK(b > 0), c, d, e, f, g AS (e + f), h, length INT, text, nocase,
           /* CHECK(a > c) */ CONSTRAINT x CHECK(A < \"c\"), CHECK(length(h) > 0 AND CAST(h AS text) <> 'd' COLLATE nocase)
           CHECK(g > 0 OR t.d > \"no such column\"), PRIMARY KEY(c, b))",
    );
    assert_eq!(
        groups(&t),
        [
            vec!["a", "b", "c"],
            vec!["d", "e", "f"],
            vec!["h"],
            vec!["length"],
            vec!["text"],
            vec!["nocase"]
        ]
    );
    let keeps: Vec<bool> = t.groups.iter().map(|group| group.keeps_previous).collect();
    assert_eq!(keeps, [true, false, false, false, false, false]);
    let t = table("CREATE TABLE t(a, b, UNIQUE(a, b))");
    assert_eq!(groups(&t), [["a"], ["b"]]);
}

#[test]
fn previous_values_are_kept_where_others_read_them() {
    let schema = schema(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, a TEXT, b, c, d, e);
         CREATE UNIQUE INDEX i ON p(lower(a)) WHERE b > 0;
         CREATE UNIQUE INDEX j ON p(c); CREATE INDEX k ON p(d);
         CREATE TABLE c(x REFERENCES p(c), y)",
    );
    let keeps = |name: &str| -> Vec<bool> {
        schema.table(name).unwrap().groups.iter().map(|group| group.keeps_previous).collect()
    };
    assert_eq!(keeps("p"), [true, true, true, true, false, false]);
    assert_eq!(keeps("c"), [false, false]);
}

#[test]
fn tables_come_after_their_parents() {
    let schema = schema(
        "CREATE TABLE a(x REFERENCES z); CREATE TABLE z(id INTEGER PRIMARY KEY, up REFERENCES z);
         CREATE TABLE m(id INTEGER PRIMARY KEY, n REFERENCES n); CREATE TABLE n(id INTEGER PRIMARY KEY, m REFERENCES m);
         CREATE TABLE k(x REFERENCES n); CREATE TABLE y(x)",
    );
    assert_eq!(names(&schema.tables), ["m", "n", "k", "y", "z", "a"]);
    assert_eq!(schema.components, [0..2, 2..3, 3..4, 4..5, 5..6]);
    let linked = schema_with(
        "CREATE TABLE a(x INT); CREATE TABLE b(id INTEGER PRIMARY KEY)",
        &[("a.refs", "x:b")],
    );
    assert_eq!(names(&linked.tables), ["b", "a"]);
}

#[test]
fn the_chinook_sample_is_understood() {
    let schema = schema(
        "CREATE TABLE [Artist]([ArtistId] INTEGER NOT NULL, [Name] NVARCHAR(120), CONSTRAINT [PK_Artist] PRIMARY KEY ([ArtistId]));
         CREATE TABLE [Album]([AlbumId] INTEGER NOT NULL, [Title] NVARCHAR(160) NOT NULL, [ArtistId] INTEGER NOT NULL,
           CONSTRAINT [PK_Album] PRIMARY KEY ([AlbumId]),
           FOREIGN KEY ([ArtistId]) REFERENCES [Artist] ([ArtistId]) ON DELETE NO ACTION ON UPDATE NO ACTION);
         CREATE TABLE [Employee]([EmployeeId] INTEGER NOT NULL, [ReportsTo] INTEGER, CONSTRAINT [PK_Employee] PRIMARY KEY ([EmployeeId]),
           FOREIGN KEY ([ReportsTo]) REFERENCES [Employee] ([EmployeeId]) ON DELETE NO ACTION ON UPDATE NO ACTION);
         CREATE TABLE [Track]([TrackId] INTEGER NOT NULL, [AlbumId] INTEGER, [UnitPrice] NUMERIC(10,2) NOT NULL,
           CONSTRAINT [PK_Track] PRIMARY KEY ([TrackId]), FOREIGN KEY ([AlbumId]) REFERENCES [Album] ([AlbumId]));
         CREATE TABLE [Playlist]([PlaylistId] INTEGER NOT NULL, CONSTRAINT [PK_Playlist] PRIMARY KEY ([PlaylistId]));
         CREATE TABLE [PlaylistTrack]([PlaylistId] INTEGER NOT NULL, [TrackId] INTEGER NOT NULL,
           CONSTRAINT [PK_PlaylistTrack] PRIMARY KEY ([PlaylistId], [TrackId]),
           FOREIGN KEY ([PlaylistId]) REFERENCES [Playlist] ([PlaylistId]), FOREIGN KEY ([TrackId]) REFERENCES [Track] ([TrackId]));
         CREATE INDEX [IFK_AlbumArtistId] ON [Album] ([ArtistId]);",
    );
    assert_eq!(
        names(&schema.tables),
        ["Artist", "Album", "Employee", "Playlist", "Track", "PlaylistTrack"]
    );
    assert!(schema.notes.is_empty() && schema.skipped.is_empty());
    assert_eq!(keys(&schema, "Employee"), ["ReportsTo>employee(EmployeeId)"]);
    assert_eq!(
        keys(&schema, "playlisttrack"),
        ["PlaylistId>playlist(PlaylistId)", "TrackId>track(TrackId)"]
    );
    assert_eq!(identity(&schema, "Album"), Identity::Birth);
    let join = schema.table("PlaylistTrack").unwrap();
    assert_eq!((join.identity, groups(join)), (Identity::Key, vec![vec!["PlaylistId", "TrackId"]]));
    assert_eq!(join.groups[0].foreign_keys, [0, 1]);
}

/// Any name in one of the ways to quote it.
fn quoted(name: &str, style: usize) -> String {
    match style % 3 {
        1 if !name.contains(']') => format!("[{name}]"),
        2 => format!("`{}`", name.replace('`', "``")),
        _ => quote(name),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Names made of what delimits SQL are found again wherever a constraint mentions them.
    #[test]
    fn any_name_is_read_as_sqlite_reads_it(
        raw in proptest::collection::vec("[a-zA-Z0-9 \"'`\\[\\](),;.*/é🦀-]{0,8}", 2..7),
        checks in proptest::collection::vec(
            proptest::collection::vec((any::<prop::sample::Index>(), 0usize..3), 1..4), 0..3),
        style in 0usize..3,
    ) {
        let columns: Vec<String> = raw.iter().enumerate().map(|(i, name)| format!("{name}{i}")).collect();
        let mut items: Vec<String> = columns.iter().map(|name| format!("{} INT", quoted(name, style))).collect();
        let mut expected: Vec<usize> = (0..columns.len()).collect();
        for check in &checks {
            let members: Vec<usize> = check.iter().map(|(index, _)| index.index(columns.len())).collect();
            let operands: Vec<String> = members.iter().zip(check)
                .map(|(&i, (_, style))| format!("coalesce({} /* ) */, 0)", quoted(&columns[i], *style)))
                .collect();
            items.push(format!("CHECK({} < 9)", operands.join(" + ")));
            let least = members.iter().map(|&i| expected[i]).min().unwrap();
            let joined: Vec<usize> = members.iter().map(|&i| expected[i]).collect();
            for unit in expected.iter_mut().filter(|unit| joined.contains(unit)) {
                *unit = least;
            }
        }
        let t = table(&format!("CREATE TABLE {}({})", quoted(&raw[0], style).replace("sqlite_", ""), items.join(", ")));
        for a in 0..columns.len() {
            prop_assert_eq!(&t.columns[a].name, &columns[a]);
            for b in 0..columns.len() {
                prop_assert_eq!(expected[a] == expected[b], t.columns[a].group == t.columns[b].group);
            }
        }
    }
}
