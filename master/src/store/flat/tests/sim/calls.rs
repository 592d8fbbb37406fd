//! The calls of the disk, and of a file that is open: each takes its step, and then does what a disk does.

use super::*;

impl Disk for SimDisk {
    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut inside = self.inside();
        let id = inside.new_file(path, false)?;
        inside.write(id, 0, bytes)?;
        inside.sync(id)
    }

    fn put(&self, path: &str, bytes: &[u8], stamp: Option<u32>) -> io::Result<()> {
        let mut inside = self.inside();
        let id = inside.new_file(path, true)?;
        inside.write(id, 0, bytes)?;
        if let Some(crc) = stamp {
            inside.files.get_mut(&id).unwrap().mark(crc);
        }
        Ok(())
    }

    fn mark(&self, path: &str, stamp: u32) -> io::Result<()> {
        let mut inside = self.inside();
        let done = inside.step(|| format!("mark {path}"));
        if goes_on(&done) {
            inside.file(path)?.0.mark(stamp);
        }
        done.map_err(|stop| stop.error)
    }

    fn stamp(&self, path: &str) -> io::Result<Stamp> {
        let mut inside = self.inside();
        inside.look(|| format!("stamp of {path}")).map_err(|stop| stop.error)?;
        Ok(inside.file(path)?.0.stamp())
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut inside = self.inside();
        let inside = &mut *inside;
        let done = inside.look(|| "sync all".to_owned());
        if !inside.nature.syncs_all {
            return Err(done.err().map_or_else(|| io::ErrorKind::Unsupported.into(), |stop| stop.error));
        }
        if inside.careless != Careless::No {
            return done.map_err(|stop| stop.error);
        }
        for content in inside.files.values_mut() {
            match &done {
                Ok(()) => content.sync(),
                // It may have come so far, or have lost what it could not write.
                Err(_) if inside.dice.one_in(2) => content.sync(),
                Err(_) if !inside.cut && inside.dice.one_in(2) => {
                    content.fail_sync(inside.nature.reverts, &mut inside.dice)
                }
                Err(_) => {}
            }
        }
        match &done {
            Ok(()) => inside.names.sync_all(),
            Err(_) => inside.names.sync_some(&mut inside.dice),
        }
        done.map_err(|stop| stop.error)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inside = self.inside();
        inside.step(|| format!("open {path}")).map_err(|stop| stop.error)?;
        let Node::File(id) = inside.names.look(path)? else { return Err(io::ErrorKind::IsADirectory.into()) };
        Ok(Box::new(SimFile { disk: self.clone(), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let what = || format!("rename {from} to {to}");
        self.inside().rename(what, |inside| {
            let node = inside.names.look(from)?;
            let ((from, from_name), (to, to_name)) = (inside.names.place_of(from)?, inside.names.place_of(to)?);
            Ok(vec![(from, from_name, None), (to, to_name, Some(node))])
        })
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.inside().rename(
            || format!("unlink {path}"),
            |inside| {
                inside.names.look(path)?;
                let (folder, name) = inside.names.place_of(path)?;
                Ok(vec![(folder, name, None)])
            },
        )
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        self.inside().rename(
            || format!("make folder {path}"),
            |inside| {
                if inside.names.look(path).is_ok() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                if inside.room.is_some_and(|room| inside.used() + BLOCK > room) {
                    inside.failures += 1;
                    return Err(io::Error::from_raw_os_error(ENOSPC));
                }
                let (folder, name) = inside.names.place_of(path)?;
                let id = inside.id();
                inside.names.add_folder(id);
                Ok(vec![(folder, name, Some(Node::Folder(id)))])
            },
        )
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut inside = self.inside();
        let done = inside.look(|| format!("sync folder {path:?}"));
        let Node::Folder(folder) = inside.names.look(path)? else { return Err(io::ErrorKind::NotADirectory.into()) };
        // A failed fsync may have done its work, or nothing.
        if inside.careless != Careless::FolderSync && goes_on(&done) {
            inside.names.sync_folder(folder);
        }
        done.map_err(|stop| stop.error)
    }

    fn reader(&self, path: &str) -> io::Result<Box<dyn io::Read>> {
        Ok(Box::new(io::Cursor::new(self.read(path, usize::MAX)?)))
    }

    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut inside = self.inside();
        inside.look(|| format!("read {path}")).map_err(|stop| stop.error)?;
        let (content, _) = inside.file(path)?;
        if content.len() > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(content.bytes().to_vec()) }
    }

    fn list(&self, path: &str) -> io::Result<Vec<FolderEntry>> {
        let mut inside = self.inside();
        inside.look(|| format!("list {path:?}")).map_err(|stop| stop.error)?;
        if inside.unlisted.as_deref() == Some(path) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let Node::Folder(id) = inside.names.look(path)? else { return Err(io::ErrorKind::NotADirectory.into()) };
        let what = |node: &Node| if matches!(node, Node::File(_)) { What::File } else { What::Folder };
        Ok(inside
            .names
            .of(id)
            .iter()
            .map(|(name, node)| FolderEntry { name: name.clone(), what: what(node) })
            .collect())
    }

    /// Asked for often, and nothing that could fail: no step.
    fn room(&self) -> Option<u64> {
        let inside = self.inside();
        inside.room.map(|room| room.saturating_sub(inside.used()) as u64)
    }
}

struct SimFile {
    disk: SimDisk,
    id: u64,
}

impl SimFile {
    /// An unlinked file whose process was killed is no more.
    fn inside(&self) -> io::Result<MutexGuard<'_, Inside>> {
        let inside = self.disk.inside();
        if inside.files.contains_key(&self.id) {
            Ok(inside)
        } else {
            Err(io::Error::other("it was open in another life"))
        }
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inside()?.write(self.id, offset as usize, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.inside()?.sync(self.id)
    }
}
