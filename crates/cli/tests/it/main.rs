//! The binary on real files. An ordinary connection, with nothing of ours loaded, is the application.

mod bad_input;
mod bucket;
mod chinook;
mod commands;
mod concurrency;
mod conflicts;
mod copies;
mod counters;
mod demo;
mod distrust;
mod folder;
mod forks;
mod guides;
mod https;
mod hub;
mod kills;
mod kv;
mod network;
mod reference;
mod rejoin;
mod sealed;
mod serve;
mod support;
mod topologies;
mod traces;
mod watch;
