//! Behaviour of the engine, through its façade, on real files that an ordinary SQLite connection
//! writes to.

mod actions;
mod again;
mod capture;
mod changes;
mod constrained;
mod converted;
mod copies;
mod cost;
mod counters;
mod folds;
mod forks;
mod freed;
mod gaps;
mod invalid;
mod keys;
mod merge;
mod migrate;
mod named;
mod pull;
mod random;
mod rebuilt;
mod recreated;
mod renamed;
mod repair;
mod retyped;
mod rules;
mod search;
mod site;
mod slices;
mod told;
mod touched;
mod unfit;
mod united;
mod versions;
mod words;
