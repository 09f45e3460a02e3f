//! The binary on real files. An ordinary connection, with nothing of ours loaded, is the application.
//!
//! `serve`, `token` and `kv` are commands of Unix alone, and so are the tests that run them.

// What only those use is not looked for elsewhere.
#![cfg_attr(not(unix), allow(unused_imports, dead_code))]

mod bad_input;
mod bucket;
mod chinook;
mod commands;
mod concurrency;
mod conflicts;
mod copies;
mod counters;
#[cfg(target_os = "linux")]
mod dash;
mod demo;
#[cfg(unix)]
mod distrust;
mod errors;
mod folder;
mod forks;
mod guides;
#[cfg(unix)]
mod https;
#[cfg(unix)]
mod hub;
#[cfg(unix)]
mod kills;
#[cfg(unix)]
mod kv;
#[cfg(target_os = "linux")]
mod leftovers;
mod messages;
#[cfg(unix)]
mod network;
mod progress;
mod reference;
mod rejoin;
mod review;
#[cfg(unix)]
mod review_page;
mod sealed;
#[cfg(unix)]
mod serve;
mod support;
mod topologies;
mod traces;
mod undo;
mod watch;
