use super::*;

#[test]
fn urls_name_a_host_and_a_place() {
    for (url, base) in [
        ("http://127.0.0.1:7700/todo", "http://127.0.0.1:7700/todo"),
        ("HTTPS://example.org/a.b-c_9/", "https://example.org/a.b-c_9"),
        ("https://example.org/behind/a/proxy", "https://example.org/behind/a/proxy"),
    ] {
        assert_eq!(Hub::new(url, None).unwrap().base, base);
    }
    let long = format!("http://host/{}", "a".repeat(65));
    for url in [
        "http://host",
        "http://host/",
        "http:///todo",
        "http://user:secret@host/todo",
        "http://host/a b",
        "http://host/-a",
        "http://host/a?b",
        "http://host/a%20b",
        "ftp://host/todo",
        &long,
    ] {
        let told = Hub::new(url, None).err().expect(url).to_string();
        assert!(told.contains(url) && told.contains("7700/todo"), "{told}");
    }
}

#[test]
fn lines_of_a_list_are_read() {
    let name = ObjectName::batch(Id([1; 16]), Id([2; 16]), 0, 7);
    let entry = Entry { name, size: 3 };
    assert_eq!(read_line(&format!("9 3 {name}")), Some(Some((entry, Vec::new()))));
    assert_eq!(read_line(&format!("9 3 {name} YWJj")), Some(Some((entry, b"abc".to_vec()))));
    assert_eq!(read_line("9 3 foreign YWJj"), Some(None));
    assert_eq!(read_line(&format!("9 0 {name}")), Some(None), "an empty object is none");
    for wrong in ["", "9", "x 3 a", "9 3", &format!("9 2 {name} YWJj"), &format!("9 3 {name} Y J")]
    {
        assert_eq!(read_line(wrong), None, "{wrong}");
    }
}
