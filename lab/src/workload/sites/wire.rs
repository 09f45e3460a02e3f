//! Counts every byte between sites and a hub: a listener that passes all of it on, both ways.

use crate::{Error, Result};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// The counter. It ends with the process.
pub struct Wire {
    address: SocketAddr,
    counts: Arc<[AtomicU64; 2]>,
}

impl Wire {
    /// In front of the hub at `hub`.
    pub fn before(hub: SocketAddr) -> Result<Wire> {
        let failed = |e: io::Error| Error::Bad(format!("counting what crosses the network: {e}"));
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let counts: Arc<[AtomicU64; 2]> = Arc::default();
        let counting = counts.clone();
        thread::spawn(move || {
            for site in listener.incoming().flatten() {
                // A connection that fails is one that the site finds broken.
                let _ = pass(site, hub, &counting);
            }
        });
        Ok(Wire { address, counts })
    }

    /// Where sites connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes from sites to the hub.
    pub fn up(&self) -> u64 {
        self.counts[0].load(Relaxed)
    }

    /// Bytes from the hub to sites.
    pub fn down(&self) -> u64 {
        self.counts[1].load(Relaxed)
    }
}

fn pass(site: TcpStream, hub: SocketAddr, counts: &Arc<[AtomicU64; 2]>) -> io::Result<()> {
    let hub = TcpStream::connect(hub)?;
    for stream in [&site, &hub] {
        stream.set_nodelay(true)?;
    }
    let ways = [(site.try_clone()?, hub.try_clone()?), (hub, site)];
    for (way, (mut from, mut to)) in ways.into_iter().enumerate() {
        let counts = counts.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                counts[way].fetch_add(n as u64, Relaxed);
                if to.write_all(&buffer[..n]).is_err() {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
        });
    }
    Ok(())
}
