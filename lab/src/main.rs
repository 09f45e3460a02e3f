//! The lab without peers.

fn main() -> std::process::ExitCode {
    synqlite_lab::main(&[], &[])
}
