//! Who waits for news of which place. A place that nobody waits for costs nothing.

use crate::place::Place;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Locks; a panic elsewhere left nothing half done here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All who wait.
#[derive(Default)]
pub struct Waiters {
    places: Mutex<HashMap<Place, Waited>>,
}

struct Waited {
    news: Arc<Notify>,
    by: usize,
}

impl Waiters {
    /// From now on `place` is waited for, until the answer is dropped.
    pub fn wait(self: &Arc<Self>, place: &Place) -> Waiting {
        let mut places = lock(&self.places);
        let waited = places.entry(place.clone());
        let waited = waited.or_insert_with(|| Waited { news: Arc::new(Notify::new()), by: 0 });
        waited.by += 1;
        Waiting { all: self.clone(), place: place.clone(), news: waited.news.clone() }
    }

    /// There is something new in `place`.
    pub fn wake(&self, place: &Place) {
        let news = lock(&self.places).get(place).map(|waited| waited.news.clone());
        if let Some(news) = news {
            news.notify_waiters();
        }
    }

    /// There may be something new anywhere.
    pub fn wake_all(&self) {
        let all: Vec<_> = lock(&self.places).values().map(|w| w.news.clone()).collect();
        all.iter().for_each(|news| news.notify_waiters());
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        lock(&self.places).values().map(|waited| waited.by).sum()
    }
}

/// Somebody who waits.
pub struct Waiting {
    all: Arc<Waiters>,
    place: Place,
    /// What wakes. Enable a future of it before looking whether there is something.
    pub news: Arc<Notify>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut places = lock(&self.all.places);
        if let Some(waited) = places.get_mut(&self.place) {
            waited.by -= 1;
            if waited.by == 0 {
                places.remove(&self.place);
                if places.is_empty() {
                    places.shrink_to_fit();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_remembered_who_went() {
        let waiters = Arc::new(Waiters::default());
        let place = Place::parse("a").unwrap();
        let (one, two) = (waiters.wait(&place), waiters.wait(&place));
        assert!(Arc::ptr_eq(&one.news, &two.news));
        assert_eq!(waiters.count(), 2);
        drop(one);
        assert_eq!(waiters.count(), 1);
        drop(two);
        assert!(lock(&waiters.places).is_empty());
    }
}
