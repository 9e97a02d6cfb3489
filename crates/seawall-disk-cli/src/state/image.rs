//! Opens or creates the disk image IMG.

use super::settings::Mark;
use crate::args::DiskServe;
use seawall_disk::nbd::{Client, Uri};
use seawall_host::{Image, ImageDraft, ImageKind};
use seawall_io::File;
use seawall_output::report::{Exit, Failure};
use seawall_output::text::{bytes, typed};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name under which a simulated device exports the disk, next to the dump area.
const HOME: &str = "home";
const AREA: &str = "area";

/// A disk's device, used by this process only.
#[derive(Debug)]
pub(crate) struct Device {
    /// The content of the disk.
    pub(crate) home: Arc<dyn File>,
    /// The dump area, if it is not a file in the state directory.
    pub(crate) area: Option<Arc<dyn File>>,
    /// Distinguishes the device from another one with the same name.
    pub(crate) identity: Option<String>,
    /// The file or block device, if it is one.
    pub(crate) image: Option<Image>,
    /// Whether the image is a file, whose content is lost with its name.
    pub(crate) is_file: bool,
    /// A new image that has no name yet.
    draft: Option<ImageDraft>,
}

/// Checks whether IMG exists, before anything is created.
pub(crate) fn look(args: &DiskServe) -> Result<bool, Failure> {
    let path = &args.image;
    if is_uri(path) {
        uri(path)?;
        if args.size.is_some() {
            let failure = Failure::new(Exit::Usage, "the size of a served disk cannot be chosen");
            return Err(failure.at(path.display()).next("omit --size"));
        }
        return Ok(true);
    }
    match (ImageKind::of(path), args.size) {
        (Ok(ImageKind::Other), _) => Err(no_image(path)),
        (Ok(ImageKind::BlockDevice), Some(_)) => {
            let failure = Failure::new(Exit::Usage, "the size of a block device cannot be chosen");
            Err(failure.at(path.display()).next("omit --size"))
        }
        (Ok(_), _) => Ok(true),
        (Err(error), Some(_)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        (Err(error), None) if error.kind() == io::ErrorKind::NotFound => {
            let next = format!("seawall disk serve {} --size SIZE makes one", typed(path));
            let failure = Failure::new(Exit::Failed, "no such image");
            Err(failure.at(path.display()).next(next))
        }
        (Err(error), _) => Err(failed(path, &error)),
    }
}

/// Whether IMG is an address instead of a path.
pub(crate) fn is_uri(path: &Path) -> bool {
    let text = path.as_os_str().as_bytes();
    text.starts_with(b"nbd:") || text.starts_with(b"nbd+unix:")
}

/// Opens an [existing](look) image, or creates one that has no name yet.
pub(crate) fn open(args: &DiskServe, is_there: bool) -> Result<Device, Failure> {
    let path = &args.image;
    if is_uri(path) {
        return reach(&uri(path)?);
    }
    let busy = || {
        let what = "another process uses this image";
        let next = "stop that process, or unmount the image";
        Failure::new(Exit::Busy, what).at(path.display()).next(next)
    };
    if let (false, Some(size)) = (is_there, args.size) {
        let draft = ImageDraft::create(path, size).map_err(|error| failed(path, &error))?;
        let draft = draft.ok_or_else(busy)?;
        let made = draft.image().and_then(|image| Ok((image.clone(), image.identity()?)));
        let (image, identity) = made.map_err(|error| failed(path, &error))?;
        let (home, image) = (image.file(), Some(image));
        return Ok(Device { home, area: None, identity, image, is_file: true, draft: Some(draft) });
    }
    let image = Image::open(path).map_err(|error| failed(path, &error))?.ok_or_else(busy)?;
    let (home, identity) = (image.file(), image.identity());
    let size = home.len().map_err(|error| failed(path, &error))?;
    let identity = identity.map_err(|error| failed(path, &error))?;
    // Even a device without a number must not be mistaken for a file.
    let identity = identity.or_else(|| Some("device without a number".to_owned()));
    if let Some(asked) = args.size.filter(|asked| *asked != size) {
        let what = format!("the image has {} already, not {}", exactly(size), exactly(asked));
        let next = "omit --size, or give the path of a new image";
        return Err(Failure::new(Exit::Conflict, what).at(path.display()).next(next));
    }
    if size == 0 {
        let next = "remove it, and give --size to create one";
        return Err(Failure::new(Exit::Format, "the image is empty").at(path.display()).next(next));
    }
    let is_file = ImageKind::of(path).is_ok_and(|kind| kind == ImageKind::File);
    Ok(Device { home, area: None, identity, image: Some(image), is_file, draft: None })
}

/// Parses the address of an image.
fn uri(path: &Path) -> Result<Uri, Failure> {
    let parsed = path.to_str().unwrap_or_default().parse();
    parsed.map_err(|error: io::Error| {
        let next = "percent-encode special characters in the socket's path, e.g. a space as %20";
        Failure::new(Exit::Usage, error).at(path.display()).next(next)
    })
}

/// Connects to a disk on a server. If its export is named `home`, there may also be an `area`.
fn reach(uri: &Uri) -> Result<Device, Failure> {
    let unreachable = |error: io::Error| {
        let next = "check that its server runs, and the names of its exports";
        Failure::new(Exit::Failed, format!("cannot reach the image: {error}")).at(uri).next(next)
    };
    let home = Client::connect(uri).map_err(unreachable)?;
    let area = if uri.name() == HOME {
        match Client::connect(&uri.with_name(AREA)) {
            Ok(area) => Some(Arc::new(area) as Arc<dyn File>),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreachable(error)),
        }
    } else {
        None
    };
    let (home, identity) = (Arc::new(home), Some(uri.to_string()));
    Ok(Device { home, area, identity, image: None, is_file: false, draft: None })
}

impl Device {
    /// When the image last changed, if known.
    pub(crate) fn changed_us(&self) -> io::Result<Option<u64>> {
        self.image.as_ref().map_or(Ok(None), Image::changed_us)
    }

    /// Like [`Device::changed_us`], once a power failure can no longer set that time back.
    pub(crate) fn settled_us(&self) -> io::Result<Option<u64>> {
        self.image.as_ref().map_or(Ok(None), Image::settled_us)
    }

    /// Marks the image. Returns whether it has the mark.
    pub(crate) fn set_mark(&self, mark: &Mark) -> io::Result<bool> {
        self.image.as_ref().map_or(Ok(false), |image| image.set_mark(&mark.encode()))
    }

    /// Gives a new image its name once everything else exists. Returns whether it is new.
    pub(crate) fn finish(&mut self, path: &Path) -> Result<bool, Failure> {
        let Some(draft) = self.draft.take() else { return Ok(false) };
        draft.finish().map(|_| true).map_err(|error| failed(path, &error))
    }
}

/// The state directory: as given, or next to the image.
pub(crate) fn state_of(image: &Path, state: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(state) = state {
        return Ok(state.to_owned());
    }
    let is_device = ImageKind::of(image).is_ok_and(|kind| kind == ImageKind::BlockDevice);
    if is_device || is_uri(image) || image.file_name().is_none() {
        let what = "this image has no directory for the disk's state";
        let failure = Failure::new(Exit::Usage, what).at(image.display());
        return Err(failure.next("give --state DIR, on a device with durable syncs"));
    }
    let image: PathBuf = image.components().collect();
    let mut path = image.into_os_string();
    path.push(".seawall");
    Ok(path.into())
}

fn exactly(size: u64) -> String {
    format!("{size} bytes ({})", bytes(size))
}

fn no_image(path: &Path) -> Failure {
    let what = "no disk image: it is neither a file nor a block device";
    Failure::new(Exit::Format, what).at(path.display()).next("give the path of an image")
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let (exit, next) = match error.kind() {
        io::ErrorKind::InvalidInput => return no_image(path),
        io::ErrorKind::AlreadyExists => (Exit::Conflict, "check the file that appeared there"),
        io::ErrorKind::StorageFull => (Exit::Failed, "free some space, or give another path"),
        _ => (Exit::Failed, "check the path, its permissions and its device"),
    };
    Failure::new(exit, format!("the image: {error}")).at(path.display()).next(next)
}
