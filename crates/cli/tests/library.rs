//! The library as a program has it: the example is what it says.

#[allow(dead_code)]
#[path = "../examples/todo.rs"]
mod todo;

#[test]
fn two_lists_meet_in_a_folder_while_both_are_watched() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(todo::run(folder.path()).unwrap(), ["milk", "rent"]);
}
