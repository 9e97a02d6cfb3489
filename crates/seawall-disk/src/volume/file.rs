//! An open file of a volume.

use super::shared::{Shared, locate};
use crate::layout::{to_u64, to_usize};
use seawall_io::{Access, File};
use std::io;
use std::sync::Arc;

/// An open file of a volume.
#[derive(Debug)]
pub(super) struct VolumeFile {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
    pub(super) access: Access,
}

impl VolumeFile {
    fn may_write(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read => {
                let why = "the file was opened for reading";
                Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
            }
        }
    }

    /// Calls `act` for each part of a range: with its offset on the disk, `None` for a hole, and
    /// its position in the range.
    fn each_part(
        &self,
        (offset, size): (u64, usize),
        mut act: impl FnMut(Option<u64>, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let state = self.shared.read();
        let node = state.table.node(self.id)?;
        let mut done = 0;
        while done < size {
            let at = offset + to_u64(done);
            let (place, part) = locate(&state.table, node, at, to_u64(size - done));
            let end = done + to_usize(part);
            act(place, done..end)?;
            done = end;
        }
        Ok(())
    }

    fn has_space(&self, offset: u64, end: u64) -> io::Result<bool> {
        let mut is_complete = end <= self.len()?;
        self.each_part((offset, to_usize(end - offset)), |place, _| {
            is_complete &= place.is_some();
            Ok(())
        })?;
        Ok(is_complete)
    }
}

impl File for VolumeFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = to_usize(self.len()?.saturating_sub(offset));
        let size = buffer.len().min(left);
        self.each_part((offset, size), |place, part| {
            let bytes = buffer.get_mut(part).unwrap_or_default();
            if let Some(place) = place {
                return self.shared.disk.read(place, bytes);
            }
            bytes.fill(0);
            Ok(())
        })?;
        Ok(size)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.may_write()?;
        let end = offset.checked_add(to_u64(bytes.len()));
        let end = end.ok_or(io::ErrorKind::FileTooLarge)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.has_space(offset, end)? {
            self.shared.extend(self.id, (offset, end), end)?;
        }
        self.each_part((offset, bytes.len()), |place, part| {
            let bytes = bytes.get(part).unwrap_or_default();
            place.map_or(Ok(()), |place| self.shared.disk.write(place, bytes))
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.disk.flush()
    }

    fn len(&self) -> io::Result<u64> {
        self.shared.read().table.node(self.id).map(|node| node.length)
    }

    fn has_name(&self) -> io::Result<bool> {
        self.shared.read().table.node(self.id).map(|node| node.name.is_some())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.may_write()?;
        if length > self.len()? {
            return self.shared.extend(self.id, (0, 0), length);
        }
        self.shared.shorten(self.id, length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.may_write()?;
        if !self.is_empty()? {
            let why = "only an empty file is filled with zeros";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.shared.extend(self.id, (0, length), length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.fill_with_zeros(length)
    }

    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        self.may_write()?;
        self.shared.extend(self.id, (0, length), 0)?;
        Ok(true)
    }

    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        let left = to_usize(self.len()?.saturating_sub(offset));
        let mut found = None;
        self.each_part((offset, left), |place, part| {
            if place.is_some() && found.is_none() {
                found = Some(offset + to_u64(part.start));
            }
            Ok(())
        })?;
        Ok(found)
    }
}

impl Drop for VolumeFile {
    fn drop(&mut self) {
        let mut state = self.shared.write();
        if let Some(node) = state.table.node_mut(self.id) {
            node.handles -= 1;
        }
        state.table.forget_unused(self.id);
    }
}
