//! `file:///dir/` URLs: a path of this machine, percent-encoded. And what of any URL is for no message.

use crate::error::{Error, Result};
use crate::percent;
use std::path::PathBuf;

/// The folder that a `file:` URL names. [`Error::NotAFolderUrl`] for a relative path, a host, or a
/// text that is no such URL.
pub(crate) fn folder_path(url: &str) -> Result<PathBuf> {
    let bad = |why| Error::NotAFolderUrl { url: url.to_owned(), why };
    os_path(parse(url, cfg!(windows)).map_err(bad)?).map_err(bad)
}

/// A URL as messages show it: without the name and password before its host, and without its query, in which
/// tokens travel. A text that is none is as it was.
pub fn blanked(url: &str) -> String {
    let scheme = |text: &str| {
        text.len() > 1
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && !text.eq_ignore_ascii_case("file")
    };
    let Some((start, rest)) = url.split_once(':').filter(|(start, _)| scheme(start)) else {
        return url.to_owned();
    };
    // Where a slash is missing or too many, a password is one all the same.
    let host = rest.trim_start_matches('/');
    let slashes = rest.strip_suffix(host).unwrap_or_default();
    let (hidden, host) = host.rsplit_once('@').map_or(("", host), |(_, host)| ("…@", host));
    let end = host.find(['?', '#']);
    let (shown, query) = end.map_or((host, ""), |at| host.split_at(at));
    let query = query.chars().next().map(|mark| format!("{mark}…")).unwrap_or_default();
    format!("{start}:{slashes}{hidden}{shown}{query}")
}

#[cfg(unix)]
fn os_path(bytes: Vec<u8>) -> std::result::Result<PathBuf, &'static str> {
    use std::os::unix::ffi::OsStringExt;
    Ok(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn os_path(bytes: Vec<u8>) -> std::result::Result<PathBuf, &'static str> {
    String::from_utf8(bytes).map(PathBuf::from).map_err(|_| "its path is not UTF-8")
}

fn parse(url: &str, windows: bool) -> std::result::Result<Vec<u8>, &'static str> {
    let rest = match url.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => rest,
        _ => return Err("it does not start with file:"),
    };
    let rest = rest.strip_prefix("//").ok_or("file: is followed by three slashes")?;
    if !rest.starts_with('/') {
        return Err("it names a host, or its path is not absolute; three slashes follow file:");
    }
    if rest.contains(['?', '#']) {
        return Err("? and # in a path are written %3F and %23");
    }
    let path =
        percent::decode(rest).ok_or("% is followed by two hex digits; % itself is written %25")?;
    if path.contains(&0) {
        return Err("its path contains a zero byte");
    }
    match path.as_slice() {
        [b'/', drive, b':', ..] if windows && drive.is_ascii_alphabetic() => {
            Ok(path.iter().skip(1).copied().collect())
        }
        _ if windows => Err("it lacks a drive, as in file:///C:/team/"),
        [b'/', b'/', ..] => Err("its path starts with two slashes"),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_decoded() {
        for (url, path) in [
            ("file:///media/stick/team/", "/media/stick/team/"),
            ("FILE:///a", "/a"),
            ("file:///", "/"),
            ("file:///a%20b/%C3%A9%25%23%3f/", "/a b/é%#?/"),
            ("file:///a b/é", "/a b/é"),
            ("file:///C:/x", "/C:/x"),
        ] {
            assert_eq!(parse(url, false), Ok(path.as_bytes().to_vec()), "{url}");
        }
        assert_eq!(parse("file:///C:/team%20a/", true), Ok(b"C:/team a/".to_vec()));
    }

    #[test]
    fn everything_else_is_refused() {
        for url in [
            "",
            "/media/stick",
            "file",
            "file:",
            "file:/media",
            "file:media",
            "file://",
            "file://media/stick",
            "file://localhost/media",
            "file://./media",
            "file:////server/share",
            "file:///a?b",
            "file:///a#b",
            "file:///a%2",
            "file:///a%zz",
            "file:///a%+1",
            "file:///a%é9",
            "file:///a%00b",
            "http://host/db",
            "s3://bucket/prefix",
        ] {
            assert!(parse(url, false).is_err(), "{url}");
        }
        assert!(parse("file:///media/stick", true).is_err());
        let message = folder_path("file://media/stick").unwrap_err().to_string();
        assert!(message.contains("file://media/stick") && message.contains("three slashes"));
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        for (url, shown) in [
            ("https://hub.example.org/n", "https://hub.example.org/n"),
            ("https://user:secret@hub.example.org/n", "https://…@hub.example.org/n"),
            ("https://user:se/cr@et@hub.example.org/n", "https://…@hub.example.org/n"),
            ("http://127.0.0.1:7700/n?token=secret", "http://127.0.0.1:7700/n?…"),
            ("http://127.0.0.1:7700/n#secret", "http://127.0.0.1:7700/n#…"),
            ("http://h/n?token=secret@x", "http://…@x"),
            ("s3://AKIA:secret@team/x", "s3://…@team/x"),
            ("postgres:/hub:secret@x/db", "postgres:/…@x/db"),
            ("https:user:secret@host/n", "https:…@host/n"),
            ("file:///home/a@b?c", "file:///home/a@b?c"),
            ("C:/a@b?c", "C:/a@b?c"),
            ("notes.db", "notes.db"),
        ] {
            assert_eq!(blanked(url), shown);
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_need_not_be_unicode() {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(folder_path("file:///a%ff").unwrap().as_os_str().as_bytes(), b"/a\xff");
    }
}
