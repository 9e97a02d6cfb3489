//! Binds a state directory to an image. A dump that is waiting in the directory is written to the
//! image first, or the server does not start.
//!
//! A dump belongs to one image, in the state it had when the power failed. The settings name the
//! image and are durable before a dump is possible. The image is marked with the directory before
//! it is served. So a dump is never written to another image or over newer data, as far as the
//! evidence in `evidence.rs` can tell.

mod evidence;

use super::keeper::{self, Saved};
use crate::args::{DiskServe, WaitingDump};
use crate::state::image::Device;
use crate::state::place::{self, Place, failed};
use crate::state::settings::{Homing, Mark, Settings};
use evidence::{Doubt, Evidence};
use seawall_disk::{Dump, Files, Identity, Inspected, Kept, Label, Options, Recovered, inspect};
use seawall_host::Image;
use seawall_io::{Clock, Entropy, SystemClock, SystemEntropy};
use seawall_output::report::{Exit, Failure, say};
use seawall_output::text::typed;
use std::io;
use std::path::{Path, PathBuf};

/// How often the progress of writing a dump to the image is recorded.
const NOTE_EVERY_US: u64 = 500_000;
/// The number for memory that is written to the image without a dump; dumps count from 1.
const OF_MEMORY: u64 = 0;

/// Refuses an image that may have a dump in another directory. Runs before a missing state
/// directory is created.
pub(super) fn check(args: &DiskServe, device: &Device) -> Result<(), Failure> {
    let mark = mark(device).map_err(|error| failed(&args.image, &error))?;
    check_mark(args, mark.as_ref(), None)
}

/// The same check, for a directory that may have settings.
fn check_mark(
    args: &DiskServe,
    mark: Option<&Mark>,
    settings: Option<&Settings>,
) -> Result<(), Failure> {
    let is_its = |mark: &&Mark| settings.is_some_and(|noted| noted.state == Some(mark.state));
    let Some(mark) = mark.filter(|mark| mark.is_open && !is_its(mark)) else { return Ok(()) };
    if args.dump == Some(WaitingDump::Discard) || is_surely_empty(mark) {
        return Ok(());
    }
    let dir = typed(&mark.dir);
    let what = format!(
        "the image was served last with the directory {dir}, and did not end well: what an \
         emergency dumped may wait there"
    );
    let next = format!(
        "seawall disk serve {} --state {dir} ...; or, if what waits there is not wanted any more, \
         add --dump discard",
        typed(&args.image)
    );
    Err(Failure::new(Exit::Conflict, what).at(args.image.display()).next(next))
}

fn is_surely_empty(mark: &Mark) -> bool {
    place::is_surely_empty(mark) && keeper::is_surely_empty(&mark.dir)
}

/// The mark on the image.
fn mark(device: &Device) -> io::Result<Option<Mark>> {
    let text = device.image.as_ref().map_or(Ok(None), Image::mark)?;
    let invalid = || {
        let why = "the image's attribute user.seawall.disk is invalid";
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    text.map(|text| Mark::decode(&text).ok_or_else(invalid)).transpose()
}

/// The files and the identity with which a disk is opened.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) files: Files,
    pub(super) recovered: Option<Recovered>,
    /// The identity of this start.
    pub(super) identity: Identity,
    /// Flushed data may be lost, and no server has reported it. Losses of the dump that this start
    /// has restored are counted in `recovered` instead.
    pub(super) has_lost: bool,
}

/// An image and its state directory.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    args: &'a DiskServe,
    place: &'a Place,
    device: &'a Device,
    settings: Option<Settings>,
    mark: Option<Mark>,
    /// Whether flushed data may be lost in any way, which a server must report.
    has_lost: bool,
}

impl<'a> Claim<'a> {
    /// Reads the state of the image and the directory without changing anything.
    pub(super) fn new(
        args: &'a DiskServe,
        place: &'a Place,
        device: &'a Device,
    ) -> Result<Self, Failure> {
        let settings = place.settings().map_err(|error| failed(place.path(), &error))?;
        let mark = mark(device).map_err(|error| failed(&args.image, &error))?;
        Ok(Self { args, place, device, settings, mark, has_lost: false })
    }

    /// Prepares the dump area for this image and ring, after writing a waiting dump to the image.
    pub(super) fn take(mut self, options: &Options) -> Result<Taken, Failure> {
        let path = self.place.path();
        let cannot = |error| failed(path, &error);
        check_mark(self.args, self.mark.as_ref(), self.settings.as_ref())?;
        let missing = || io::Error::new(io::ErrorKind::NotFound, "it is missing or empty");
        let area = self.place.area(self.device).and_then(|area| area.ok_or_else(missing));
        let files = area.map(|(area, _)| Files { home: self.device.home.clone(), area });
        let noted = self.settings.as_ref();
        let home = |kept: &Kept| self.write_memory(kept, options);
        let saved = keeper::save((self.args, self.place), files.as_ref(), noted, home)?;
        self.has_lost = noted.is_some_and(|noted| noted.has_lost);
        let size = self.device.home.len().map_err(cannot)?;
        let (mut recovered, mut fit) = (None, None);
        let mut has_lost = self.has_lost;
        match files {
            // The memory had all that the area can have.
            _ if saved == Saved::Home => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.settings.is_some() || !keeper::is_surely_empty(path) {
                    return Err(no_area(path));
                }
            }
            Err(error) => return Err(cannot(error)),
            Ok(files) => {
                let found = inspect(&*files.area).map_err(cannot)?;
                let Some(Inspected { label, dump }) = found else { return Err(no_area(path)) };
                has_lost = noted.is_some_and(|noted| is_lost(noted, saved, dump.is_some()));
                let is_discarded = dump.is_some() && self.args.dump == Some(WaitingDump::Discard);
                let is_torn = !is_discarded && dump.as_ref().is_some_and(|dump| dump.lost > 0);
                self.has_lost = has_lost || is_torn;
                recovered = self.use_dump(&files, (&label, dump.as_ref()), size)?;
                let sizes = (label.home_size, label.area_size);
                let is_fit = self.is_noted() && sizes == (size, options.area_size());
                fit = Some(files).filter(|_| is_fit && !is_discarded);
            }
        }
        let files = match fit {
            Some(files) => files,
            None => self.place.prepare(self.device, options).map_err(cannot)?,
        };
        self.note(None).map_err(cannot)?;
        let noted = self.settings.unwrap_or_default();
        let state = noted.state.unwrap_or_default();
        let identity = Identity { state, serve: noted.serve, home_size: size };
        Ok(Taken { files, recovered, identity, has_lost })
    }

    /// Writes a dump to the image, or keeps a copy of it with `--dump discard`.
    fn use_dump(
        &mut self,
        files: &Files,
        (label, dump): (&Label, Option<&Dump>),
        size: u64,
    ) -> Result<Option<Recovered>, Failure> {
        let Some(dump) = dump else { return Ok(None) };
        if self.args.dump == Some(WaitingDump::Discard) {
            let kept = self.place.keep(&*files.area, dump);
            return kept.map(|()| None).map_err(|error| failed(self.place.path(), &error));
        }
        if label.home_size != size {
            return Err(self.refuse(&Doubt::OtherImage));
        }
        self.bring_home(files, dump)
    }

    fn is_noted(&self) -> bool {
        self.settings.as_ref().is_some_and(|noted| noted.image == self.device.identity)
    }

    /// Writes a dump to the image, unless the image may have newer data and `--dump apply` is
    /// missing.
    fn bring_home(&mut self, files: &Files, dump: &Dump) -> Result<Option<Recovered>, Failure> {
        let homing_us = self.settings.as_ref().and_then(|noted| noted.homing_us(dump.generation));
        self.check_evidence(dump.time_us, homing_us)?;
        self.home(files, dump).map_err(|error| failed(self.place.path(), &error))
    }

    /// Writes the memory of the last server to the image, unless that may have newer data and
    /// `--dump apply` is missing. Then replaces the broken dump area: without one, the next start
    /// needs the memory again.
    fn write_memory(&self, kept: &Kept, options: &Options) -> Result<(), Failure> {
        let home_size =
            self.device.home.len().map_err(|error| failed(self.place.path(), &error))?;
        if kept.identity.home_size != home_size {
            return Err(self.refuse(&Doubt::OtherImage));
        }
        let homing_us = self.settings.as_ref().and_then(|noted| noted.homing_us(OF_MEMORY));
        if !kept.is_empty() {
            self.check_evidence(Some(kept.active_us), homing_us)?;
        }
        // A new count of starts would make this the memory of an earlier one.
        let mut note = self.note_progress(OF_MEMORY);
        let written = kept.runs().try_for_each(|(_, offset, bytes)| {
            note()?;
            self.device.home.write_at(bytes, offset)
        });
        let synced = written.and_then(|()| self.device.home.sync());
        synced.map_err(|error| failed(&self.args.image, &error))?;
        let what = "the dump area is broken: the memory of the last server is on the image instead";
        say(&format!("seawall: {what}"));
        let replaced = self.place.prepare(self.device, options).map(drop);
        replaced.map_err(|error| failed(self.place.path(), &error))
    }

    /// Refuses to write what was complete at this time to an image that may have newer data.
    fn check_evidence(
        &self,
        dumped_us: Option<u64>,
        homing_us: Option<u64>,
    ) -> Result<(), Failure> {
        let cannot = |error| failed(self.place.path(), &error);
        let evidence = Evidence {
            settings: self.settings.clone(),
            image: self.device.identity.clone(),
            mark: self.mark.clone(),
            changed_us: self.device.changed_us().map_err(cannot)?,
            dumped_us,
            homing_us,
        };
        match evidence.doubt() {
            Some(doubt) if self.args.dump != Some(WaitingDump::Apply) => Err(self.refuse(&doubt)),
            _ => Ok(()),
        }
    }

    /// Writes the dump to the image. Before each step, records that this server changes the image,
    /// so that the next start continues after a kill.
    fn home(&mut self, files: &Files, dump: &Dump) -> io::Result<Option<Recovered>> {
        let time_us = SystemClock::new().wall_us();
        self.note(Some(Homing { generation: dump.generation, time_us }))?;
        files.recover(&mut self.note_progress(dump.generation))
    }

    /// Returns what records the time before each write of a dump or of memory to the image.
    fn note_progress(&self, generation: u64) -> impl FnMut() -> io::Result<()> {
        let (clock, place) = (SystemClock::new(), self.place);
        let mut settings = self.settings.clone().unwrap_or_default();
        move || {
            let noted_us = settings.homing.map_or(0, |homing| homing.time_us);
            let time_us = clock.wall_us();
            // A clock that was set back also triggers a record.
            if time_us.abs_diff(noted_us) >= NOTE_EVERY_US {
                settings.homing = Some(Homing { generation, time_us });
                place.note(&settings)?;
            }
            Ok(())
        }
    }

    /// Records in the directory, then on the image, that they belong together.
    fn note(&mut self, homing: Option<Homing>) -> io::Result<()> {
        let old = self.settings.take().unwrap_or_default();
        let state = match old.state {
            Some(state) => state,
            None => SystemEntropy.random()?,
        };
        let known = self.mark.take().filter(|mark| mark.state == state);
        let theirs = known.map_or(0, |mark| mark.serve);
        let mut settings = Settings {
            image: self.device.identity.clone(),
            state: Some(state),
            serve: old.serve.max(theirs).saturating_add(1),
            is_marked: old.is_marked,
            since_us: self.device.settled_us()?,
            homing,
            is_armed: false,
            // If this start fails, the next one reports the loss.
            has_lost: self.has_lost,
        };
        self.place.note(&settings)?;
        let dir = absolute(self.place.path());
        let mark = Mark { state, serve: settings.serve, is_open: true, dir };
        let is_marked = self.device.set_mark(&mark)?;
        if is_marked != settings.is_marked {
            settings.is_marked = is_marked;
            self.place.note(&settings)?;
        }
        self.mark = Some(mark).filter(|_| is_marked);
        self.settings = Some(settings);
        Ok(())
    }

    fn refuse(&self, doubt: &Doubt) -> Failure {
        let what = format!("a dump is waiting here, and was not written to the image: {doubt}");
        let next = match doubt {
            Doubt::OtherImage => "serve that image; or add",
            _ => "check the content of the image, then add",
        };
        let next = format!(
            "{next} --dump discard to serve this one as it is, or --dump apply to write the dump \
             into it"
        );
        Failure::new(Exit::Conflict, what).at(self.place.path().display()).next(next)
    }
}

/// Records, after a drain, that no dump is waiting for the image, if that is true.
pub(super) fn leave(place: &Place, device: &Device) -> io::Result<()> {
    let Some((_, Inspected { dump: None, .. })) = place.area(device)? else { return Ok(()) };
    place.note_armed(false)?;
    let state = place.settings()?.and_then(|settings| settings.state);
    if let Ok(Some(mark)) = mark(device)
        && state == Some(mark.state)
    {
        // A stale mark is harmless: it makes another directory check this one first.
        let _ = device.set_mark(&Mark { is_open: false, ..mark });
    }
    Ok(())
}

/// Whether flushed data of the last server may be lost.
fn is_lost(noted: &Settings, saved: Saved, has_dump: bool) -> bool {
    let is_whole = matches!(saved, Saved::Dumped { lost_runs: 0 } | Saved::Home);
    // A dump counts what it lacks. A server that was never armed has acknowledged nothing early.
    let is_gone = noted.is_armed && !has_dump && !is_whole;
    noted.has_lost || is_gone
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn no_area(path: &Path) -> Failure {
    let what = "the dump area is missing or empty, and any dump is lost with it";
    let next = "restore it, or remove the directory if nothing was dumped";
    Failure::new(Exit::Format, what).at(path.display()).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_reported_if_early_flushes_have_left_no_data() {
        let whole = Saved::Dumped { lost_runs: 0 };
        let memory = [Saved::Nothing, whole, Saved::Dumped { lost_runs: 1 }];
        // For each of these, without and with a dump.
        let rows = [
            ("write-through", false, false, [[false, false], [false, false], [false, false]]),
            ("armed", true, false, [[true, false], [false, false], [true, false]]),
            ("not reported yet", false, true, [[true, true], [true, true], [true, true]]),
            ("neither reported yet", true, true, [[true, true], [true, true], [true, true]]),
        ];
        for (name, is_armed, has_lost, expected) in rows {
            let noted = Settings { is_armed, has_lost, ..Settings::default() };
            let found = memory.map(|saved| [false, true].map(|dump| is_lost(&noted, saved, dump)));
            assert_eq!(found, expected, "{name}");
        }
    }
}
