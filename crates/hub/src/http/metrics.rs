//! What the hub counts, as Prometheus reads it.

use axum::http::StatusCode;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of requests.
#[derive(Default)]
pub struct Metrics {
    /// By the first digit of the status.
    answers: [AtomicU64; 5],
    /// Bytes of objects that came.
    pub received: AtomicU64,
    /// Bytes of objects that went.
    pub sent: AtomicU64,
    /// Objects removed because snapshots cover them.
    pub retired: AtomicU64,
    /// Open connections.
    pub connections: AtomicU64,
}

impl Metrics {
    /// A request was answered.
    pub fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// The text format, `gauges` and others included. A name that ends in `_total` is a counter.
    pub fn text(&self, others: &[(&str, f64)]) -> String {
        let mut out = String::new();
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let _ = writeln!(out, "# TYPE synqlite_requests_total counter");
        for (class, n) in self.answers.iter().enumerate() {
            let _ =
                writeln!(out, "synqlite_requests_total{{status=\"{}xx\"}} {}", class + 1, read(n));
        }
        let own = [
            ("synqlite_received_bytes_total", read(&self.received) as f64),
            ("synqlite_sent_bytes_total", read(&self.sent) as f64),
            ("synqlite_retired_objects_total", read(&self.retired) as f64),
            ("synqlite_connections", read(&self.connections) as f64),
        ];
        for (name, value) in own.iter().chain(others) {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            let _ = writeln!(out, "# TYPE {name} {kind}\n{name} {value}");
        }
        out
    }
}
