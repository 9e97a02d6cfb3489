//! The files of a disk, which must keep their names: a file without one loses its content when the
//! server ends.

use super::image::Device;
use seawall_disk::Files;
use seawall_io::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A file that reports nothing as durable once its name was removed.
#[derive(Debug)]
struct Named {
    file: Arc<dyn File>,
    why: &'static str,
}

impl Named {
    /// Returns what a sync has returned, or an error if the file has no name.
    fn checked(&self, done: io::Result<()>) -> io::Result<()> {
        done?;
        if self.file.has_name()? { Ok(()) } else { Err(io::Error::other(self.why)) }
    }
}

impl File for Named {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_uncached(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.checked(self.file.sync())
    }

    fn write_uncached(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_uncached(bytes, offset)
    }

    fn write_synced(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.checked(self.file.write_synced(bytes, offset))
    }

    fn direct_alignment(&self) -> Option<usize> {
        self.file.direct_alignment()
    }

    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.checked(self.file.write_direct(bytes, offset))
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn has_unknown(&self, range: Range<u64>) -> bool {
        self.file.has_unknown(range)
    }

    fn has_name(&self) -> io::Result<bool> {
        self.file.has_name()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.file.fill_with_zeros(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        self.file.reserve_space(length)
    }

    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.next_written(offset)
    }
}

/// The files of a disk whose names can be removed while it is served.
#[derive(Debug)]
pub(crate) struct Names {
    /// The image, if it is a file.
    image: Option<Arc<dyn File>>,
    /// The dump area, if it is a file in the state directory.
    area: Option<Arc<dyn File>>,
}

/// A file that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    Image,
    Area,
}

impl Removed {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Image => "the image was REMOVED, and its content is lost when the server ends",
            Self::Area => "the dump area was removed",
        }
    }
}

impl Names {
    /// Returns the files of a disk so that their syncs fail without a name, and their names.
    pub(crate) fn watch(device: &Device, files: Files) -> (Self, Files) {
        let image = device.is_file.then(|| files.home.clone());
        let area = device.area.is_none().then(|| files.area.clone());
        let named = |file: Arc<dyn File>, is_named, removed: Removed| -> Arc<dyn File> {
            if is_named { Arc::new(Named { file, why: removed.why() }) } else { file }
        };
        let home = named(files.home, image.is_some(), Removed::Image);
        let named_area = named(files.area, area.is_some(), Removed::Area);
        (Self { image, area }, Files { home, area: named_area })
    }

    /// The file that has lost its name; the image if both have.
    pub(crate) fn removed(&self) -> Option<Removed> {
        let is_gone = |file: &Option<Arc<dyn File>>| {
            file.as_ref().is_some_and(|file| file.has_name().is_ok_and(|has_name| !has_name))
        };
        let gone = [(Removed::Image, &self.image), (Removed::Area, &self.area)];
        gone.into_iter().find(|(_, file)| is_gone(file)).map(|(removed, _)| removed)
    }
}
