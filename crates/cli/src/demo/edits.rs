//! What the three sites write, and what is asked of them afterwards.

use super::data::{CUSTOMERS, Dice, ORDERS, QUIET};
use crate::error::Result;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// A statement and the reason for it.
pub struct Edit {
    /// The SQL.
    pub sql: String,
    /// Why it is there.
    pub why: &'static str,
}

/// What one site writes, in one transaction.
pub struct Edits {
    /// The site.
    pub site: &'static str,
    /// Its statements.
    pub edits: Vec<Edit>,
}

fn edit(sql: impl Into<String>, why: &'static str) -> Edit {
    Edit { sql: sql.into(), why }
}

/// A new customer with an order of some lines. Every site takes the next free numbers, as
/// applications do.
fn newcomer(name: &str, products: &[&str]) -> String {
    let (customer, order) = (CUSTOMERS + 1, ORDERS + 1);
    let lines = products.iter().zip(1..);
    let lines: Vec<_> =
        lines.map(|(product, n)| format!("({order}, {n}, '{product}', {n}, 500)")).collect();
    format!(
        "INSERT INTO customers(id, name) VALUES({customer}, '{name}'); \
         INSERT INTO orders VALUES({order}, {customer}, '2026-11-20', 'open'); \
         INSERT INTO order_lines VALUES {};",
        lines.join(", ")
    )
}

/// The edits of all sites, in the order in which they are made.
pub fn all(seed: u64) -> Vec<Edits> {
    let mut dice = Dice(seed ^ 0x5eed);
    let disputed = dice.between(1, 100);
    let gone = dice.between(CUSTOMERS - QUIET + 1, CUSTOMERS);
    let (first, other) = (dice.between(1, 500), dice.between(501, 900));
    let cancelled = dice.between(901, ORDERS);
    let a = vec![
        edit(
            format!("UPDATE customers SET city = 'Bergen' WHERE id = {disputed};"),
            "B writes the same cell a moment later: the later write wins",
        ),
        edit(
            newcomer("Ann of A", &["kettle", "lamp"]),
            "B and C take the same numbers for other customers: all are kept",
        ),
        edit(
            format!("UPDATE orders SET status = 'sent' WHERE id BETWEEN {first} AND {first} + 49;"),
            "nobody else touches these",
        ),
        edit("INSERT INTO notes VALUES('rope', 'count the rope');", "B writes an equal note"),
        edit(
            format!("UPDATE customers SET email = 'shop@example.org' WHERE id = {};", disputed + 1),
            "addresses are unique, and B gives this one to somebody else",
        ),
        edit(
            format!("INSERT INTO order_lines VALUES({cancelled}, 99, 'globe', 1, 700);"),
            "C deletes this order: it is kept for its new line, and the conflict is listed",
        ),
    ];
    let b = vec![
        edit(
            format!("UPDATE customers SET city = 'Bodø' WHERE id = {disputed};"),
            "the same cell as on A",
        ),
        edit(newcomer("Ben of B", &["rope", "chair", "globe"]), "the same numbers as on A"),
        edit(
            format!("UPDATE customers SET credit = credit + 100 WHERE id = {gone};"),
            "C deletes this customer: the delete wins",
        ),
        edit(
            "INSERT INTO notes VALUES('rope', 'count the rope');",
            "a table without a key: A's note and this one are two rows, as in one database",
        ),
        edit(
            format!("UPDATE customers SET email = 'shop@example.org' WHERE id = {};", disputed + 2),
            "A was first: this customer keeps what was there before, and the conflict is listed",
        ),
    ];
    let c = vec![
        edit(
            format!("UPDATE customers SET credit = 999 WHERE id = {disputed};"),
            "another column of the row that A and B changed: both changes stay",
        ),
        edit(newcomer("Cem of C", &["drum"]), "the same numbers as on A and B"),
        edit(
            format!("DELETE FROM customers WHERE id = {gone};"),
            "B has just changed it; nothing refers to it",
        ),
        edit(
            format!("DELETE FROM order_lines WHERE \"order\" = {other} AND line > 1;"),
            "nobody else touches these",
        ),
        edit(
            format!(
                "DELETE FROM order_lines WHERE \"order\" = {cancelled}; \
                 DELETE FROM orders WHERE id = {cancelled};"
            ),
            "A has just added a line to this order",
        ),
    ];
    vec![
        Edits { site: "A", edits: a },
        Edits { site: "B", edits: b },
        Edits { site: "C", edits: c },
    ]
}

/// What to ask when all have synchronized.
pub fn questions() -> Vec<Edit> {
    vec![
        edit(
            format!(
                "SELECT c.id, c.name, o.id, group_concat(l.product) FROM customers c \
                 JOIN orders o ON o.customer = c.id JOIN order_lines l ON l.\"order\" = o.id \
                 WHERE c.id > {CUSTOMERS} GROUP BY o.id ORDER BY c.id;"
            ),
            "the earliest keeps its number, the others got new ones, and every order and line \
             followed its own customer",
        ),
        edit(
            "SELECT id, city, credit FROM customers WHERE credit = 999;",
            "the city from B, the credit from C",
        ),
        edit(
            "SELECT count(*) FROM customers WHERE email = 'shop@example.org';",
            "no address twice",
        ),
        edit("SELECT count(*) FROM notes WHERE text = 'count the rope';", "both notes are there"),
    ]
}

/// Rows of a query, for people.
pub fn answer(conn: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = conn.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |c| {
            Ok(match row.get_ref(c)? {
                ValueRef::Null => "NULL".to_owned(),
                ValueRef::Integer(n) => n.to_string(),
                ValueRef::Real(n) => n.to_string(),
                ValueRef::Text(t) | ValueRef::Blob(t) => String::from_utf8_lossy(t).into_owned(),
            })
        };
        let texts: Vec<String> = (0..columns).map(text).collect::<Result<_>>()?;
        out.push(texts.join(" | "));
    }
    Ok(out)
}
