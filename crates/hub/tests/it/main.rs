//! The hub as sites see it: over HTTP, on real files.

mod access;
mod client;
mod events;
mod objects;
mod support;
mod uploads;
