//! Text that is to travel as ASCII: what is no letter and no digit is `%` and the two hex digits of a byte (RFC 3986).

use std::fmt::Write;

/// What text is written as.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into())
            }
            // Writing to a string cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// The bytes that are written so; `None` if a `%` stands before anything but two hex digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        decoded.push((high * 16 + low) as u8);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_plain_and_comes_back() {
        for text in ["", "laptop", "Ann's laptop", "Büro\r\n", "100 %", "日本"] {
            let plain = encode(text);
            assert!(plain.bytes().all(|b| b.is_ascii_graphic()), "{plain}");
            assert_eq!(decode(&plain).as_deref(), Some(text.as_bytes()));
        }
        assert_eq!(encode("Ann's"), "Ann%27s");
        assert!(["%", "%2", "%zz", "%+1"].into_iter().all(|text| decode(text).is_none()));
    }
}
