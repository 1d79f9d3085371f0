//! What the one handler counts, and how late the events are.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use kube::ResourceExt;
use sha2::{Digest, Sha256};

/// Holds the CLOCK_REALTIME nanoseconds at which the server wrote the event; zero: not sent with a time.
const SENT_ANNOTATION: &str = "bench/sent";

#[derive(Default)]
pub struct Counter {
    pub adds: AtomicU64,
    pub updates: AtomicU64,
    pub deletes: AtomicU64,
    pub latency: Mutex<Histogram>,
}

impl Counter {
    /// Counts an updated object with these annotations. Returns the count at every 1000th.
    pub fn updated(&self, annotations: &BTreeMap<String, String>) -> Option<u64> {
        let sent = annotations.get(SENT_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
        if sent > 0 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
            self.latency.lock().unwrap().record(now.saturating_sub(sent));
        }
        let count = self.updates.fetch_add(1, Relaxed) + 1;
        count.is_multiple_of(1000).then_some(count)
    }
}

/// Nanoseconds in buckets of 1/32 of their power of two: within 1.6 %, and of constant size.
pub struct Histogram {
    buckets: [u32; 64 * 32],
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; 64 * 32], count: 0 }
    }
}

impl Histogram {
    fn record(&mut self, nanoseconds: u64) {
        let value = nanoseconds.max(32);
        let exponent = value.ilog2() - 5;
        self.buckets[exponent as usize * 32 + (value >> exponent) as usize % 32] += 1;
        self.count += 1;
    }

    /// Count, median and 99th percentile in microseconds; clears.
    pub fn take(&mut self) -> (u64, f64, f64) {
        let result = (self.count, self.quantile(0.50), self.quantile(0.99));
        *self = Self::default();
        result
    }

    fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.count as f64) as u64;
        let mut below = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            below += u64::from(*n);
            if below > rank {
                return ((i % 32) as f64 + 32.5) * (1_u64 << (i / 32)) as f64 / 1000.0; // the middle of the bucket
            }
        }
        0.0
    }
}

/// SHA-256 of the sorted lines "namespace/name resourceVersion\n".
pub fn digest<K: ResourceExt>(objects: &[Arc<K>]) -> String {
    let mut lines: Vec<String> = objects.iter().map(|object| line(object.as_ref())).collect();
    lines.sort_unstable();
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line);
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn line<K: ResourceExt>(object: &K) -> String {
    let (name, version) = (object.name_any(), object.resource_version().unwrap_or_default());
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{name} {version}\n"),
        None => format!("{name} {version}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_two_percent_and_taking_clears() {
        let mut histogram = Histogram::default();
        for i in 1..=1000_u64 {
            histogram.record(i * 1000);
        }
        let (count, p50, p99) = histogram.take();
        assert_eq!(count, 1000);
        assert!((p50 - 500.0).abs() < 10.0, "{p50}");
        assert!((p99 - 990.0).abs() < 20.0, "{p99}");
        assert_eq!(histogram.take(), (0, 0.0, 0.0));
    }
}
