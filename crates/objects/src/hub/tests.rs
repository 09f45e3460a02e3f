use super::*;

#[test]
fn urls_name_a_host_and_a_store() {
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
    let entry = Some(Entry { name, size: 3 });
    let line = |entry, prefix| Some(Line { entry, prefix });
    assert_eq!(read_line(&format!("9 3 {name}")), line(entry, None));
    assert_eq!(read_line(&format!("9 3 {name} 2")), line(entry, Some(2)));
    assert_eq!(read_line("9 3 foreign 3"), line(None, Some(3)));
    assert_eq!(read_line(&format!("9 0 {name}")), line(None, None), "an empty object is none");
    for wrong in ["", "9", "x 3 a", "9 3", &format!("9 2 {name} 3"), &format!("9 3 {name} 1 2")] {
        assert_eq!(read_line(wrong), None, "{wrong}");
    }
    assert_eq!(
        read_line(&format!("9 99999999 {name} 99999999")),
        None,
        "a hub sends 64 KiB at most"
    );
}
