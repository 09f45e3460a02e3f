//! The description is checked against the server: each answer that any test of this crate gets must
//! be of a status that is listed there.

use crate::support::{Lab, batch};
use serde_json::Value;
use std::sync::LazyLock;

static DESCRIPTION: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../src/openapi.json")).unwrap());

const METHODS: [&str; 6] = ["get", "put", "delete", "post", "patch", "options"];

/// The description of a path.
fn described(path: &str) -> Option<&'static Value> {
    let parts: Vec<_> = path.split('/').collect();
    let fits = |template: &str| {
        let wanted: Vec<_> = template.split('/').collect();
        let rest = template.ends_with("{object}");
        let long = if rest { parts.len() >= wanted.len() } else { parts.len() == wanted.len() };
        let same =
            |(want, is): (&&str, &&str)| want == is || (want.starts_with('{') && !is.is_empty());
        long && wanted.iter().zip(&parts).all(same)
    };
    let paths = DESCRIPTION["paths"].as_object().unwrap();
    let exact = paths.get(path);
    exact.or_else(|| paths.iter().find(|(template, _)| fits(template)).map(|(_, value)| value))
}

/// Fails unless the answer to a request is one of those described.
pub fn assert_described(head: &str, status: u16) {
    let mut words = head.split(' ');
    let method = words.next().unwrap().to_ascii_lowercase();
    let path = words.next().unwrap().split('?').next().unwrap();
    if path.len() > 1000 {
        // Longer than servers take: refused before anybody looks at it.
        return assert!((400..500).contains(&status), "{status}");
    }
    let Some(found) = described(path) else {
        assert!((400..500).contains(&status), "{method} {path}: {status} where nothing is");
        return;
    };
    let method = if method == "head" { "get" } else { &method };
    let operation = &found[method];
    if operation.is_null() {
        assert!(matches!(status, 404 | 405), "{method} {path}: {status}, but not described");
    } else {
        let listed = operation["responses"].get(status.to_string()).is_some();
        assert!(listed, "{method} {path}: {status} is not described");
    }
}

#[test]
fn what_is_described_is_there_and_nothing_else() {
    let lab = Lab::open();
    for (template, found) in DESCRIPTION["paths"].as_object().unwrap() {
        let object = batch("todo", 1).replace("/todo/objects/", "");
        let path = template.replace("{place}", "todo").replace("{object}", &object);
        let path = path.replace("{upload}", &"a".repeat(64)) + "?wait=0";
        for method in METHODS {
            let mut client = lab.nobody();
            let answer = client.request(method.to_uppercase().as_str(), &path, &[], b"x");
            assert_eq!(answer.status == 405, found[method].is_null(), "{method} {path}");
        }
    }
    let told = lab.nobody().get("/openapi.json").expect(200);
    assert_eq!(serde_json::from_slice::<Value>(&told.body).unwrap(), *DESCRIPTION);
}

#[test]
fn every_reference_in_the_description_leads_somewhere() {
    fn walk(value: &Value, seen: &mut usize) {
        match value {
            Value::Object(fields) => {
                if let Some(target) = fields.get("$ref") {
                    let pointer = target.as_str().unwrap().strip_prefix('#').unwrap();
                    assert!(DESCRIPTION.pointer(pointer).is_some(), "{target}");
                    *seen += 1;
                }
                fields.values().for_each(|value| walk(value, seen));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, seen)),
            _ => {}
        }
    }
    let mut seen = 0;
    walk(&DESCRIPTION, &mut seen);
    assert!(seen > 50, "{seen}");
}
