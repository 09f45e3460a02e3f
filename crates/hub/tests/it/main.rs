//! The hub as sites see it: over HTTP, on real files.

mod access;
mod client;
mod events;
mod objects;
mod openapi;
mod operation;
mod page;
mod postgres;
mod retire;
mod support;
mod uploads;
