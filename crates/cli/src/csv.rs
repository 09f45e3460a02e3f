//! CSV as RFC 4180 has it, one record at a time.

use std::iter::Peekable;

/// The next CSV record that is no blank line; `None` at the end of the file.
pub fn record(
    input: &mut Peekable<impl Iterator<Item = std::io::Result<u8>>>,
) -> std::io::Result<Option<Vec<Vec<u8>>>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), Vec::new(), false);
    while let Some(byte) = input.next().transpose()? {
        let mut next_is = |byte: u8| input.next_if(|next| next.as_ref().is_ok_and(|b| *b == byte));
        match byte {
            b'"' if quoted && next_is(b'"').is_some() => field.push(b'"'),
            b'"' if quoted => quoted = false,
            b'"' if field.is_empty() => quoted = true,
            b',' if !quoted => fields.push(std::mem::take(&mut field)),
            b'\r' | b'\n' if !quoted => {
                if byte == b'\r' && next_is(b'\n').is_none() {
                    field.push(byte);
                } else if !fields.is_empty() || !field.is_empty() {
                    break;
                }
            }
            byte => field.push(byte),
        }
    }
    if quoted {
        return Err(std::io::Error::other("a quote is not closed"));
    }
    if fields.is_empty() && field.is_empty() {
        return Ok(None);
    }
    fields.push(field);
    Ok(Some(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> std::io::Result<Vec<Vec<String>>> {
        let mut input = text.bytes().map(Ok).peekable();
        let mut out = Vec::new();
        while let Some(fields) = record(&mut input)? {
            out.push(fields.iter().map(|f| String::from_utf8_lossy(f).into_owned()).collect());
        }
        Ok(out)
    }

    #[test]
    fn fields_are_split_at_commas_outside_quotes() {
        let found = records("a,b\r\n\n\"c,\"\"d\"\"\ne\",\n5\" disk,x").unwrap();
        assert_eq!(found, [["a", "b"], ["c,\"d\"\ne", ""], ["5\" disk", "x"]]);
        assert_eq!(records("").unwrap(), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_quote_that_stays_open_is_an_error() {
        assert!(records("a,\"b\nc,d\n").is_err());
    }
}
