//! Laws and campaigns in their short form; `docs/testing.md` names the long ones.

mod constraints;
mod crash;
mod exchange;
mod forge;
mod laws;
mod seeds;
mod shadow;
mod topology;
mod wild;
