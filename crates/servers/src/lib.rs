//! Servers of others that tests start, and a proxy that does harm.
//!
//! - [`Storage`]: a stand-in for S3 whose conditional requests have one winner.
//! - [`Postgres`]: the PostgreSQL of this machine, with a data folder of its own.
//! - [`Authority`]: signs certificates.
//! - [`Faults`]: a proxy before a server, which answers some requests itself.
//!
//! Each listens on a free port of 127.0.0.1 and ends with the test. Where a program is missing the
//! test is told why, prints it and is skipped.

mod authority;
mod faults;
mod postgres;
mod storage;

pub use authority::{Authority, Certified};
pub use faults::{Faults, KINDS};
pub use postgres::Postgres;
pub use storage::Storage;

use std::net::TcpListener;

/// A port that is free just now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Waits until something holds, as long as a slow machine may need.
fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("a server did not answer within 30 s");
}
