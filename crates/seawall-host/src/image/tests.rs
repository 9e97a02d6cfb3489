//! Tests of images: creation, leftovers, opening twice, and identity.

#![allow(clippy::disallowed_methods, reason = "the test acts as another program")]

use super::*;
use crate::programs::wait_for_programs;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("seawall-io-image-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn create(path: &Path, size: u64) -> io::Result<Option<ImageDraft>> {
    wait_for_programs();
    ImageDraft::create(path, size)
}

fn open(path: &Path) -> io::Result<Option<Image>> {
    wait_for_programs();
    Image::open(path)
}

#[test]
fn image_gets_its_name_last_and_replaces_no_file() {
    let folder = Folder::new("draft");
    let path = folder.0.join("img");
    let draft = create(&path, 5000).unwrap().unwrap();
    assert_eq!(folder.names(), ["img.seawall-new"]);
    fs::write(&path, b"mine").unwrap();
    assert_eq!(draft.finish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!((fs::read(&path).unwrap(), folder.names()), (b"mine".to_vec(), vec!["img".into()]));
    let taken = create(&path, 5000).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    fs::remove_file(&path).unwrap();
    let image = create(&path, 5000).unwrap().unwrap().finish().unwrap();
    assert_eq!((fs::read(&path).unwrap(), image.file().len().unwrap()), (vec![0; 5000], 5000));
    assert_eq!(folder.names(), ["img"]);
}

#[test]
fn leftovers_of_a_killed_process_are_removed_but_not_of_a_running_one() {
    let folder = Folder::new("left");
    let path = folder.0.join("img");
    let living = create(&path, 4096).unwrap().unwrap();
    assert!(create(&path, 4096).unwrap().is_none());
    drop(living);
    assert!(folder.names().is_empty());
    // A crash between link and unlink: the temporary name belongs to a complete image.
    fs::write(folder.0.join("kept"), b"kept").unwrap();
    fs::hard_link(folder.0.join("kept"), folder.0.join("img.seawall-new")).unwrap();
    create(&path, 4096).unwrap().unwrap().finish().unwrap();
    assert_eq!(fs::read(folder.0.join("kept")).unwrap(), b"kept");
    assert_eq!(folder.names(), ["img", "kept"]);
}

#[test]
fn image_is_opened_once_and_has_its_own_identity() {
    let folder = Folder::new("identity");
    let path = folder.0.join("img");
    let image = create(&path, 4096).unwrap().unwrap().finish().unwrap();
    let first = image.identity().unwrap().unwrap();
    assert!(open(&path).unwrap().is_none());
    drop(image);
    let moved = folder.0.join("moved");
    fs::rename(&path, &moved).unwrap();
    assert_eq!(open(&moved).unwrap().unwrap().identity().unwrap().unwrap(), first);
    fs::remove_file(&moved).unwrap();
    // This often reuses the inode number of the removed file.
    let image = create(&path, 4096).unwrap().unwrap().finish().unwrap();
    assert_ne!(image.identity().unwrap().unwrap(), first);
}

#[test]
fn path_that_is_not_an_image_is_refused() {
    let folder = Folder::new("none");
    assert_eq!(open(&folder.0.join("img")).unwrap_err().kind(), io::ErrorKind::NotFound);
    for place in [folder.0.as_path(), Path::new("/dev/null")] {
        assert_eq!(open(place).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
