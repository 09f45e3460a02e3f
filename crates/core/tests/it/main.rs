//! Behaviour of the engine, through its façade, on real files that an ordinary SQLite connection
//! writes to.

mod actions;
mod capture;
mod constrained;
mod cost;
mod counters;
mod merge;
mod migrate;
mod random;
mod repair;
mod site;
mod versions;
