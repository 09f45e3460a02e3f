//! The view over random states.

mod fold;
mod memory;
mod random;
mod shapes;
