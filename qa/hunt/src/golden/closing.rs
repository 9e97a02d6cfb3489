//! Logs with the mark of a clean close in their manifest. The other golden files are older than
//! this mark.

use super::Case;
use super::image::Files;
use seawall_format::Manifest;

/// The cases that have the mark. `sound` are the logs as the writer makes them.
pub(super) fn all(sound: &[(Case, Files)]) -> Vec<Case> {
    let (_, closed) = sound.iter().find(|(case, _)| case.name == "closed").unwrap();
    let mut cut = closed.clone();
    cut.get_mut("000000000003.seg").unwrap().truncate(0xDB8);
    vec![
        Case::of("closed-marked", "three segments, closed, with the mark of the close", closed),
        Case::of(
            "cut-short-marked",
            "zeros are missing; the mark proves that nothing is lost",
            &cut,
        ),
    ]
}

/// The files as a writer without the mark makes them.
pub(super) fn without_mark(mut files: Files) -> Files {
    if let Some(bytes) = files.get_mut("manifest") {
        for slot in Manifest::decode_file(bytes).into_iter().flatten() {
            let place = slot.closing_place();
            let [start, end] = [place.start, place.end].map(|at| usize::try_from(at).unwrap());
            if let Some(mark) = bytes.get_mut(start..end) {
                mark.fill(0);
            }
        }
    }
    files
}
