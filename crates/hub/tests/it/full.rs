//! Disks that have no room: puts are refused, reading goes on, and puts go on once there is room.

use crate::client::Client;
use crate::support::{Lab, batch, bytes, files, until};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use synqlite_hub::{Location, Scope};
use synqlite_lsm::Real;
use synqlite_lsm::disk::{Disk, Force, LogFile, ReadFile, WriteFile};

/// Whether the disk of [`FullDisk`] has no room.
static FULL: AtomicBool = AtomicBool::new(false);

/// A disk that can be full.
#[derive(Debug)]
struct FullDisk;

struct FullFile<T>(T);

fn room() -> io::Result<()> {
    if FULL.load(Ordering::SeqCst) { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
}

impl WriteFile for FullFile<Box<dyn WriteFile>> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        room().and_then(|()| self.0.append(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}

impl LogFile for FullFile<Box<dyn LogFile>> {
    fn grow(&mut self, len: u64) -> io::Result<()> {
        room().and_then(|()| self.0.grow(len))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8], forced: bool) -> io::Result<()> {
        if let Err(e) = room() {
            // Some of it may have found room.
            self.0.write_at(offset, &bytes[..bytes.len() / 2], forced)?;
            return Err(e);
        }
        self.0.write_at(offset, bytes, forced)
    }

    fn force(&self) -> Force {
        self.0.force()
    }
}

impl Disk for FullDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Real.create_dir(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Real.lock(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        Real.list(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Real.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        room()?;
        Ok(Box::new(FullFile(Real.create(path)?)))
    }

    fn create_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        room()?;
        Ok(Box::new(FullFile(Real.create_log(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Real.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Real.remove(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        Real.sync_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Real.sync_dir(dir)
    }

    fn boot(&self) -> [u8; 16] {
        Real.boot()
    }
}

/// Lists what is there and reads it all; `refused` may be there or not.
fn assert_there(client: &mut Client, acknowledged: &[u64], refused: u64) {
    for n in acknowledged {
        assert_eq!(client.get(&batch("todo", *n)).expect(200).body, [*n as u8; 900], "{n}");
    }
    let listed = client.get("/todo/objects").expect(200).lines().len();
    let read = client.get(&batch("todo", refused)).status;
    assert_eq!(listed, acknowledged.len() + usize::from(read == 200));
}

#[test]
fn a_hub_whose_store_stopped_on_a_full_disk_goes_on_when_there_is_room() {
    let mut lab = Lab::with(|settings| {
        settings.open = true;
        settings.setup.reserve = 0;
        settings.setup.disk = || Arc::new(FullDisk);
    });
    let mut client = lab.nobody();
    let mut acknowledged = Vec::new();
    for n in 1..40 {
        client.put(&batch("todo", n), &[n as u8; 900]).expect(201);
        acknowledged.push(n);
        if n % 13 > 0 {
            continue;
        }
        let refused = n + 100;
        FULL.store(true, Ordering::SeqCst);
        client.put(&batch("todo", refused), &[7; 900]).expect(507);
        // Where the log has to grow first, the store has written nothing and need not stop.
        let health = if n == 13 { 503 } else { client.get("/healthz").status };
        client.get("/healthz").expect(health);
        // It tries again now and then, and is what it was.
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(500));
            client.put(&batch("todo", refused), &[7; 900]).expect(507);
            client.get("/healthz").expect(health);
            assert_there(&mut client, &acknowledged, refused);
        }
        FULL.store(false, Ordering::SeqCst);
        until(|| client.get("/healthz").status == 200);
        assert_there(&mut client, &acknowledged, refused);
        client.put(&batch("todo", refused), &[refused as u8; 900]).expect(201);
        acknowledged.push(refused);
    }
    lab.stop();
    lab.start();
    assert_there(&mut lab.nobody(), &acknowledged, 1_000);
}

/// Nobody asks how it is: the next put finds out.
#[test]
fn on_a_disk_that_was_filled_to_the_last_byte_puts_go_on_when_there_is_room() {
    let mut lab = Lab::open();
    lab.stop();
    let Some(disk) = Small::mount(lab.scratch("small")) else {
        return println!("skipped: only root can mount a small file system");
    };
    lab.settings.store = Location::Folder(disk.0.join("hub"));
    lab.settings.setup.reserve = 0;
    // Each round has one of them less. All are there before the store is, which takes what there is.
    let fillers = [0, 1, 2].map(|n| disk.0.join(format!("filler{n}")));
    fillers.iter().for_each(|filler| std::fs::write(filler, vec![1; 12 << 20]).unwrap());
    lab.start();
    let mut client = lab.nobody();
    let content = bytes(200_000, 1);
    // What was refused may be there: then a later put of it finds it.
    let there = |status| status == 201 || status == 200;
    let mut count = 0;
    for (round, filler) in fillers.iter().enumerate() {
        let mut refused = 0;
        while refused < 5 {
            let status = client.put(&batch("todo", count + 1), &content).status;
            assert!(there(status) || status == 507, "round {round}: {status}");
            (count, refused) = if there(status) { (count + 1, 0) } else { (count, refused + 1) };
            assert!(count < 1_000, "the disk has 64 MB");
        }
        // Long enough for what is done when nobody writes.
        std::thread::sleep(std::time::Duration::from_secs(2));
        std::fs::remove_file(filler).unwrap();
        until(|| there(client.put(&batch("todo", count + 1), &content).status));
        count += 1;
        for n in 1..=count {
            assert!(client.get(&batch("todo", n)).expect(200).body == content, "{n}");
        }
    }
    lab.stop();
    lab.start();
    assert_eq!(lab.nobody().get("/todo/objects").expect(200).lines().len(), count as usize);
    lab.stop();
}

#[test]
fn a_disk_that_is_nearly_full_is_said_to_be() {
    let mut lab = Lab::open();
    lab.nobody().put(&batch("todo", 1), b"x").expect(201);
    lab.stop();
    lab.settings.setup.reserve = u64::MAX;
    lab.start();
    let mut client = lab.nobody();
    client.put(&batch("todo", 2), b"x").expect(507);
    client.get("/healthz").expect(503);
    client.get(&batch("todo", 1)).expect(200);
    client.put(&batch("todo", 1), b"x").expect(200);
    lab.stop();
    lab.settings.setup.reserve = 0;
    lab.start();
    lab.nobody().put(&batch("todo", 2), b"x").expect(201);
}

/// A small file system in memory, for as long as this lives.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(at: std::path::PathBuf) -> Option<Small> {
        std::fs::create_dir(&at).unwrap();
        let mut mount = std::process::Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(&at).output();
        done.is_ok_and(|output| output.status.success()).then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn on_a_full_disk_puts_are_refused_until_there_is_room() {
    let mut lab = Lab::open();
    lab.stop();
    let Some(disk) = Small::mount(lab.scratch("small")) else {
        return println!("skipped: only root can mount a small file system");
    };
    lab.settings.store = Location::Folder(disk.0.join("hub"));
    lab.settings.open = false;
    lab.settings.setup.reserve = 8 << 20;
    lab.start();
    let secret = lab.token("*", Scope::Admin);
    let mut admin = Client::new(&lab.hub().url(), Some(&secret));
    let content = bytes(1 << 20, 1);
    let mut count = 0;
    let mut put = admin.put(&batch("todo", 1), &content);
    while put.status == 201 {
        count += 1;
        assert!(count < 100, "the disk has 64 MB");
        put = admin.put(&batch("todo", count + 1), &content);
    }
    put.expect(507);
    assert!(count > 20, "{count}");
    // Larger than all that is left: what arrived of it is gone again.
    admin.put(&batch("todo", 1000), &vec![1; 12 << 20]).expect(507);
    assert!(lab.settings.store == Location::parse(disk.0.join("hub").to_str().unwrap()).unwrap());
    assert_eq!(files(&disk.0.join("hub/staging")).len(), 0);
    for n in 1..=count {
        assert!(admin.get(&batch("todo", n)).expect(200).body == content, "{n}");
    }
    admin.delete("/todo").expect(204);
    until(|| admin.put(&batch("todo", 1), &content).status == 201);
    lab.stop();
    lab.start();
    let mut admin = Client::new(&lab.hub().url(), Some(&secret));
    assert_eq!(admin.get("/todo/objects").expect(200).lines().len(), 1);
    lab.stop();
}
