//! Reading what requests say: queries and headers. All of it may come from anybody.

use super::failure::Failure;
use crate::backend::Part;
use axum::http::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use axum::http::{HeaderMap, StatusCode};
use std::str::FromStr;
use synqlite_wire::Id;

/// The part of a URL after `?`. Only digits and hex digits mean something, so nothing is decoded.
pub struct Query<'a>(pub &'a str);

impl<'a> Query<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        let pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).last()
    }

    /// A number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        self.text(name).map(|text| number(name, text)).transpose()
    }

    /// Sixteen bytes in hex digits.
    pub fn id(&self, name: &str) -> Result<Option<Id>, Failure> {
        self.text(name).map(|text| id(name, text)).transpose()
    }
}

fn number(name: &str, text: &str) -> Result<u64, Failure> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let read = if digits { u64::from_str(text).ok() } else { None };
    read.ok_or_else(|| Failure::bad(format!("{name} is no number. Write decimal digits")))
}

fn id(name: &str, text: &str) -> Result<Id, Failure> {
    let hex = text.bytes().all(|b| b.is_ascii_hexdigit());
    let read = if hex { text.parse().ok() } else { None };
    read.ok_or_else(|| Failure::bad(format!("{name} is no id. Write 32 hex digits")))
}

/// A header as text.
pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Failure> {
    let value = headers.get(name).map(|value| value.to_str());
    value.transpose().map_err(|_| Failure::bad(format!("header {name} is no text. Write ASCII")))
}

/// A header with a number.
pub fn header_number(headers: &HeaderMap, name: &str) -> Result<Option<u64>, Failure> {
    header(headers, name)?.map(|text| number(name, text)).transpose()
}

/// How long the body is.
pub fn length(headers: &HeaderMap) -> Result<u64, Failure> {
    let length = header_number(headers, CONTENT_LENGTH.as_str())?;
    length.ok_or_else(|| {
        Failure::new(StatusCode::LENGTH_REQUIRED, "the length is missing. Send Content-Length")
    })
}

/// What part of an object is wanted. What is not one range of bytes is ignored, as RFC 9110 has it.
pub fn part(headers: &HeaderMap) -> Part {
    let read = || {
        let text = headers.get(RANGE)?.to_str().ok()?.trim().strip_prefix("bytes=")?;
        let (from, to) = text.trim().split_once('-')?;
        let n = |text: &str| number("", text.trim()).ok();
        match (from.trim().is_empty(), to.trim().is_empty()) {
            (true, false) => Some(Part::Last(n(to)?)),
            (false, true) => Some(Part::From(n(from)?)),
            (false, false) => {
                let (from, to) = (n(from)?, n(to)?);
                (from <= to).then_some(Part::Between(from, to))
            }
            (true, true) => None,
        }
    };
    read().unwrap_or(Part::Whole)
}

/// A part of an object that is put in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadPart {
    /// Its first byte.
    pub from: u64,
    /// Its last byte.
    pub to: u64,
    /// Bytes of the whole object.
    pub total: u64,
}

/// The header `Content-Range`, if there is one.
pub fn upload_part(headers: &HeaderMap) -> Result<Option<UploadPart>, Failure> {
    let Some(text) = header(headers, CONTENT_RANGE.as_str())? else { return Ok(None) };
    let read = || {
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let (from, to) = range.split_once('-')?;
        let n = |text: &str| number("", text).ok();
        let part = UploadPart { from: n(from)?, to: n(to)?, total: n(total)? };
        (part.from <= part.to && part.to < part.total).then_some(part)
    };
    let part = read().ok_or_else(|| {
        Failure::bad("Content-Range is malformed. Write bytes FROM-TO/TOTAL, counted from 0")
    });
    part.map(Some)
}

/// The 64 hex digits that name an upload.
pub fn upload(text: &str) -> Result<blake3::Hash, Failure> {
    let lower = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let hash = if lower { blake3::Hash::from_hex(text).ok() } else { None };
    hash.ok_or_else(|| {
        Failure::bad("an upload is named by the BLAKE3 hash of the object. Write 64 hex digits")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn queries_hold_numbers_and_ids() {
        let hex = "00112233445566778899aabbccddeeff";
        let text = format!("after=7&x&limit=&prefix=1&prefix=2&epoch={hex}&site=zz");
        let query = Query(&text);
        assert_eq!(query.number("after").unwrap(), Some(7));
        assert_eq!(query.number("prefix").unwrap(), Some(2));
        assert_eq!(query.number("wait").unwrap(), None);
        assert_eq!(query.id("epoch").unwrap().unwrap().to_string(), hex);
        assert!(query.number("limit").is_err() && query.id("site").is_err());
        for bad in ["after=-1", "after=+1", "after=1e3", "after=99999999999999999999", "after=%31"]
        {
            assert!(Query(bad).number("after").is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_are_read_or_ignored() {
        for (text, part) in [
            ("bytes=0-9", Part::Between(0, 9)),
            ("bytes=5-", Part::From(5)),
            ("bytes=-7", Part::Last(7)),
            ("bytes= 1-2", Part::Between(1, 2)),
            ("bytes=2-1", Part::Whole),
            ("bytes=0-1,5-6", Part::Whole),
            ("lines=0-1", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=x-", Part::Whole),
        ] {
            assert_eq!(super::part(&with("range", text)), part, "{text}");
        }
    }

    #[test]
    fn parts_of_uploads_are_strict() {
        let read = |text| upload_part(&with("content-range", text));
        let part = UploadPart { from: 0, to: 9, total: 10 };
        assert_eq!(read("bytes 0-9/10").unwrap(), Some(part));
        assert_eq!(upload_part(&HeaderMap::new()).unwrap(), None);
        for bad in ["", "bytes 0-9/*", "bytes 9-0/10", "bytes 0-10/10", "bytes=0-9/10", "0-9/10"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(upload(&"a".repeat(64)).is_ok());
        for bad in ["", &"A".repeat(64), &"a".repeat(63), "../../etc"] {
            assert!(upload(bad).is_err(), "{bad}");
        }
    }
}
