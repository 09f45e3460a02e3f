//! The view over random states.

mod memory;
mod random;
mod shapes;
