//! Mutexes whose state outlives a thread that panicked while it held one: what they guard is changed as a
//! whole or not at all.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
