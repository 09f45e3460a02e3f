//! Settling conflicts one after another, with a look at both sides: in the browser, or in the terminal.
//!
//! Decisions are collected first, so taking one back is free. A dry run tells what they would come to, and then
//! all are written in one transaction. What was settled or changed by others meanwhile is told, and nothing is
//! decided on what nobody has seen.

mod browser;
mod cells;
mod desk;
mod gate;
mod http;
mod serve;
mod talk;
mod words;

pub use browser::open;
pub use desk::Desk;
pub use serve::Server;
pub use talk::talk;
