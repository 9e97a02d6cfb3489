//! Whole-log tools: verify, back up, salvage, repair, and build parity.

pub(crate) mod backup;
pub(crate) mod exclusive;
pub(crate) mod progress;
pub(crate) mod protection;
pub(crate) mod restore;
pub(crate) mod salvage;
pub(crate) mod truncate_damage;
pub(crate) mod unreported;
pub(crate) mod verify;

use crate::base::error::Result;
use crate::base::error::log_path::NamesLog;
use crate::base::options::Options;
use crate::files::directory::open_existing;
use crate::files::overlay::Patch;
use crate::files::staging;
use crate::files::unlock::{LogFiles, Unlocker};
use crate::maintenance::backup::BackupReport;
use crate::maintenance::progress::{Progress, ProgressReporter};
use crate::maintenance::restore::RepairPlan;
use crate::maintenance::restore::diff::{self, Change};
use crate::maintenance::salvage::{Salvage, SalvageReport};
use crate::maintenance::truncate_damage::TailTruncation;
use crate::maintenance::verify::Verification;
use crate::parity::backfill::Protection;
use seawall_format::parity::Scheme;
use seawall_io::Storage;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maintenance of one log as a whole: verification, repair, backup, salvage and parity.
///
/// Nothing is opened before a method does its work, so one value serves several calls. Methods
/// that change or repair the log need it closed; [`verify`](Self::verify),
/// [`back_up`](Self::back_up) and [`protection`](Self::protection) work beside a running writer.
///
/// # Examples
///
/// ```
/// use seawall::verify::Verdict;
/// use seawall::{Log, Maintenance};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-maint-{}", std::process::id()));
/// let log: Log<u32> = Log::open(&folder)?;
/// log.append(&1)?;
/// log.close()?;
///
/// let mut percent = 0;
/// let found = Maintenance::at(&folder)
///     .progress(|at| percent = at.done * 100 / at.total.max(1))
///     .verify()?;
/// assert_eq!((found.verdict, found.records), (Verdict::Clean, 1));
/// assert_eq!(percent, 100);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Maintenance<'a> {
    log: Place,
    replicas: Vec<Place>,
    /// Options that hold the key of an encrypted log.
    options: Options,
    progress: Box<dyn FnMut(Progress) + 'a>,
    /// The notes of reported losses, if the caller confirms that it reported them.
    reported: Option<Vec<String>>,
}

/// A log in a directory, or in another kind of storage.
#[derive(Clone, Debug)]
enum Place {
    Directory(PathBuf),
    Storage(Arc<dyn Storage>),
}

impl Place {
    fn open(&self) -> Result<Arc<dyn Storage>> {
        match self {
            Self::Directory(path) => open_existing(path),
            Self::Storage(storage) => Ok(storage.clone()),
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Directory(path) => path.clone(),
            Self::Storage(storage) => storage.path(),
        }
    }
}

impl<'a> Maintenance<'a> {
    /// Maintenance of the log in the directory `path`.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self::of(Place::Directory(path.as_ref().to_owned()))
    }

    /// Maintenance of a log that another kind of storage holds.
    pub fn on(storage: &Arc<dyn Storage>) -> Self {
        Self::of(Place::Storage(storage.clone()))
    }

    fn of(log: Place) -> Self {
        let (replicas, options) = (vec![], Options::new());
        Self { log, replicas, options, progress: Box::new(|_| {}), reported: None }
    }

    /// Sets the key of an encrypted log. [`salvage`](Self::salvage) and
    /// [`truncate_damaged_tail`](Self::truncate_damaged_tail) need the key, and
    /// [`verify`](Self::verify) also decrypts if it has the key. The other methods work without a
    /// key.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn key(mut self, source: impl crate::base::key_source::KeySource + 'static) -> Self {
        self.options = self.options.key(source);
        self
    }

    /// Calls `report` now and then with the progress of long work, on the calling thread.
    #[must_use]
    pub fn progress(mut self, report: impl FnMut(Progress) + 'a) -> Self {
        self.progress = Box::new(report);
        self
    }

    /// Adds copies of the same log, from which [`repair`](Self::repair) and
    /// [`salvage`](Self::salvage) take what is damaged here.
    #[must_use]
    pub fn replicas<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let places = paths.into_iter().map(|path| Place::Directory(path.as_ref().to_owned()));
        self.replicas.extend(places);
        self
    }

    /// Adds copies of the same log in other kinds of storage.
    #[must_use]
    pub fn replicas_on<'b>(
        mut self,
        storages: impl IntoIterator<Item = &'b Arc<dyn Storage>>,
    ) -> Self {
        self.replicas.extend(storages.into_iter().cloned().map(Place::Storage));
        self
    }

    /// Keeps a note of the losses that [`repair`](Self::repair) and
    /// [`truncate_damaged_tail`](Self::truncate_damaged_tail) return until
    /// [`confirm_report`](Self::confirm_report): if the process is killed before, the next repair
    /// returns them again. Without this, losses are returned again only if the call that found
    /// them was itself interrupted.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Log, Maintenance};
    ///
    /// # let name = format!("seawall-doc-report-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// # Log::<u32>::open(&folder)?.close()?;
    /// let mut maintenance = Maintenance::at(&folder).until_reported();
    /// let done = maintenance.truncate_damaged_tail()?;
    /// println!("{} records removed", done.intact_behind);
    /// maintenance.confirm_report()?;
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn until_reported(mut self) -> Self {
        self.reported = Some(vec![]);
        self
    }

    /// Removes the notes of the losses that earlier calls returned.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the log cannot be opened. A note that cannot be removed
    /// is returned once more.
    pub fn confirm_report(&mut self) -> Result<()> {
        let places = self.reported.as_mut().map(std::mem::take).unwrap_or_default();
        if places.is_empty() {
            return Ok(());
        }
        self.run(|log, _| {
            unreported::remove(&log.storage, &places);
            Ok(())
        })
    }

    /// Verifies every byte of the log. A running writer may continue meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io), [`Error::NotALog`](crate::Error::NotALog),
    /// [`Error::Unsupported`](crate::Error::Unsupported). Damage is not an error:
    /// [`Verification::damage`] lists it.
    pub fn verify(&mut self) -> Result<Verification> {
        self.run(verify::verify)
    }

    /// Verifies a closed log like [`verify`](Self::verify), and reads around blocks that the device
    /// refuses.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`](crate::Error::Busy) if a writer has the log open or opened it meanwhile;
    /// otherwise as [`verify`](Self::verify).
    pub fn diagnose(&mut self) -> Result<Verification> {
        self.run(|log, _| truncate_damage::diagnose(&log.storage))
    }

    /// Copies the log to the new directory `target`, durably. A running writer may continue
    /// meanwhile; the copy is the log of one moment.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) with `AlreadyExists` if `target` exists.
    /// [`Error::Damaged`](crate::Error::Damaged) if the log is damaged, also where parity restores
    /// it for readers: repair it first. `target` gets its name once it is complete: an error leaves
    /// nothing, a crash leaves `target.partial`, which can be removed. Only if the sync of its name
    /// fails, the complete `target` stays; the error says so.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Log, LogReader, Lsn, Maintenance};
    ///
    /// # let name = format!("seawall-doc-copy-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// # let backup = folder.with_extension("backup");
    /// let log: Log<u32> = Log::open(&folder)?;
    /// log.append(&7)?;
    /// let report = Maintenance::at(&folder).back_up(&backup)?; // the writer is still open
    /// assert_eq!(report.last, Some(Lsn::FIRST));
    /// let reader: LogReader<u32> = LogReader::open(&backup)?;
    /// assert_eq!(reader.read_from(Lsn::FIRST)?.count(), 1);
    /// # drop(log); std::fs::remove_dir_all(&folder)?; std::fs::remove_dir_all(&backup)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn back_up(&mut self, target: impl AsRef<Path>) -> Result<BackupReport> {
        let source = self.log.path();
        self.run(|log, progress| {
            staging::create_dir_atomically(&source, target.as_ref(), |target| {
                backup::back_up(&log.storage, &target, progress)
            })
        })
    }

    /// Copies the log to an empty storage of another kind.
    ///
    /// # Errors
    ///
    /// As [`back_up`](Self::back_up); `AlreadyExists` if `target` has files.
    pub fn back_up_to(&mut self, target: &Arc<dyn Storage>) -> Result<BackupReport> {
        self.run(|log, progress| backup::back_up(&log.storage, target, progress))
    }

    /// Returns what [`repair`](Self::repair) would do, and changes nothing.
    ///
    /// # Errors
    ///
    /// As [`repair`](Self::repair).
    pub fn plan_repair(&mut self) -> Result<RepairPlan> {
        let replicas = self.replicas.clone();
        self.run(|log, _| restore::plan_repair(&log.storage, &open_all(&replicas)?))
    }

    /// Repairs the log in place, from its parity and from the [`replicas`](Self::replicas). What
    /// cannot be repaired is listed in [`RepairPlan::after`].
    ///
    /// The replaced bytes are kept in quarantine, durably, before the first one changes. After a
    /// crash each byte is as it was or as it should be, and the next repair continues.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`](crate::Error::Busy) if a writer has the log open.
    /// [`Error::Mismatch`](crate::Error::Mismatch) if a replica is of another log.
    /// [`Error::NotALog`](crate::Error::NotALog) if nothing that remains says which log it is.
    /// [`Error::Io`](crate::Error::Io): the log may be repaired in part; check the device, then
    /// repair again.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::verify::Verdict;
    /// use seawall::{Log, Maintenance};
    ///
    /// # let name = format!("seawall-doc-repair-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// # let backup = folder.with_extension("backup");
    /// let log: Log<u32> = Log::open(&folder)?;
    /// log.append(&7)?;
    /// log.close()?;
    /// Maintenance::at(&folder).back_up(&backup)?;
    /// let segment = folder.join("000000000001.seg");
    /// # #[expect(clippy::disallowed_methods)] fn lose(file: &std::path::Path) {
    /// #     std::fs::remove_file(file).unwrap();
    /// # }
    /// lose(&segment);
    ///
    /// let done = Maintenance::at(&folder).replicas([&backup]).repair()?;
    /// assert_eq!((done.before.verdict, done.after.verdict), (Verdict::Lost, Verdict::Clean));
    /// # std::fs::remove_dir_all(&folder)?; std::fs::remove_dir_all(&backup)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn repair(&mut self) -> Result<RepairPlan> {
        let replicas = self.replicas.clone();
        self.run_reporting(|log| restore::repair(&log.storage, &open_all(&replicas)?))
    }

    /// Describes the bytes that each of `patches` repairs: how they were damaged, and the field and
    /// the record they belong to. [`Verification::mended`] lists what parity repairs.
    ///
    /// # Errors
    ///
    /// As [`verify`](Self::verify).
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Log, Maintenance};
    ///
    /// # let name = format!("seawall-doc-describe-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// let log: Log<u32> = Log::open(&folder)?;
    /// log.append(&7)?;
    /// log.close()?;
    ///
    /// let mut maintenance = Maintenance::at(&folder);
    /// let found = maintenance.verify()?;
    /// for change in maintenance.describe(&found.mended)? {
    ///     println!("{}: {change}", change.file);
    /// }
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn describe(&self, patches: &[Patch]) -> Result<Vec<Change>> {
        diff::describe(&self.log.open()?, patches)
    }

    /// Returns what [`truncate_damaged_tail`](Self::truncate_damaged_tail) would do, and changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// As [`truncate_damaged_tail`](Self::truncate_damaged_tail).
    pub fn plan_truncation(&mut self) -> Result<TailTruncation> {
        self.run(|log, _| truncate_damage::plan_truncation(log))
    }

    /// Ends the log before the first damage that keeps it from being opened, durably. All records
    /// after that are given up, intact or not; their segments are kept in quarantine. A log that
    /// opens by itself is only opened and closed cleanly.
    ///
    /// To keep the intact records after the damage, use [`salvage`](Self::salvage).
    ///
    /// # Errors
    ///
    /// [`Error::Busy`](crate::Error::Busy) if a writer has the log open.
    /// [`Error::Damaged`](crate::Error::Damaged) if no beginning is left that could be kept, or the
    /// manifest is lost: [`salvage`](Self::salvage) and, with a manifest, an open in
    /// [`OpenMode::Salvage`](crate::OpenMode) remain. [`Error::Io`](crate::Error::Io): a second try
    /// is safe.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Log, Maintenance};
    ///
    /// # let name = format!("seawall-doc-cut-tail-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// let log: Log<u32> = Log::open(&folder)?;
    /// let lsn = log.append(&7)?;
    /// log.close()?;
    ///
    /// let done = Maintenance::at(&folder).truncate_damaged_tail()?; // no damage: nothing goes
    /// assert_eq!((done.last, done.damage.len()), (Some(lsn), 0));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn truncate_damaged_tail(&mut self) -> Result<TailTruncation> {
        self.run_reporting(truncate_damage::truncate_damaged_tail)
    }

    /// Writes the intact records of the log to the new log `target`, durably and with the same
    /// LSNs. The damaged log is only read, around blocks that its device refuses; parity and the
    /// [`replicas`](Self::replicas) restore what they can.
    ///
    /// Intact parts of an atomic set that lost other parts are given up with them;
    /// [`LogReader::skip_damaged`](crate::LogReader::skip_damaged) still reads them from the
    /// damaged log.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) with `AlreadyExists` if `target` exists.
    /// [`Error::Busy`](crate::Error::Busy) if a writer has the log open or opened it meanwhile.
    /// [`Error::NotALog`](crate::Error::NotALog) if nothing of it can be read.
    /// [`Error::Damaged`](crate::Error::Damaged) if the LSNs that can be read are beyond those of
    /// any log, or the file `keys` of an encrypted log cannot be read. If no segment is encrypted
    /// yet, the records can then be copied without a key, to a log that is not encrypted. With
    /// replicas also as [`plan_repair`](Self::plan_repair). `target` gets its name
    /// once it is complete: an error leaves nothing, a crash leaves `target.partial`, which can be
    /// removed. Only if the sync of its name fails, the complete `target` stays; the error says so.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Log, Maintenance};
    ///
    /// # let name = format!("seawall-doc-salv-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// # let rescued = folder.with_extension("rescued");
    /// let log: Log<u32> = Log::open(&folder)?;
    /// log.append(&7)?;
    /// log.close()?;
    /// let found = Maintenance::at(&folder).salvage(&rescued)?;
    /// assert_eq!((found.records, found.given_up.len()), (1, 0));
    /// let log: Log<u32> = Log::open(&rescued)?;
    /// assert_eq!(log.append(&8)?.get(), 2);
    /// # drop(log); std::fs::remove_dir_all(&folder)?; std::fs::remove_dir_all(&rescued)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn salvage(&mut self, target: impl AsRef<Path>) -> Result<SalvageReport> {
        let (source, replicas) = (self.log.path(), self.replicas.clone());
        self.run(|log, progress| {
            let salvage = Salvage::of(log, &open_all(&replicas)?)?;
            staging::create_dir_atomically(&source, target.as_ref(), |target| {
                salvage.copy_to(target, progress)
            })
        })
    }

    /// Salvages to an empty storage of another kind.
    ///
    /// # Errors
    ///
    /// As [`salvage`](Self::salvage); `AlreadyExists` if `target` has files.
    pub fn salvage_to(&mut self, target: Arc<dyn Storage>) -> Result<SalvageReport> {
        let replicas = self.replicas.clone();
        self.run(|log, progress| Salvage::of(log, &open_all(&replicas)?)?.copy_to(target, progress))
    }

    /// Reports how much of the log has parity.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io), [`Error::NotALog`](crate::Error::NotALog),
    /// [`Error::Unsupported`](crate::Error::Unsupported).
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::parity::Parity;
    /// use seawall::{Log, Maintenance, Options};
    ///
    /// # let name = format!("seawall-doc-prot-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// let log: Log<u32> = Options::new().parity(Some(Parity::DEFAULT)).open(&folder)?;
    /// log.append(&7)?;
    /// log.close()?;
    /// let found = Maintenance::at(&folder).protection()?;
    /// assert_eq!((found.scheme, found.covered), (Some(Parity::DEFAULT), found.bytes));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn protection(&mut self) -> Result<Protection> {
        self.run(|log, _| protection::protection(&log.storage))
    }

    /// Builds the parity that the log lacks: for segments that were written without it, where a
    /// crash left some out, and where parity itself is damaged. Returns how much is covered then.
    ///
    /// Parity is computed from the records as they are: verify them first. After a crash, first
    /// open the log once: until then, records at the end that may not be durable get no parity
    /// ([`Protection::unsure`]).
    ///
    /// # Errors
    ///
    /// [`Error::Busy`](crate::Error::Busy) if a writer has the log open.
    /// [`Error::Io`](crate::Error::Io), of the kind
    /// [`InvalidData`](std::io::ErrorKind::InvalidData) where existing parity contradicts the
    /// records: that parity is kept, and a retry fails again.
    /// [`Error::NotALog`](crate::Error::NotALog),
    /// [`Error::Unsupported`](crate::Error::Unsupported).
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::parity::Parity;
    /// use seawall::{Log, Maintenance};
    ///
    /// # let name = format!("seawall-doc-mkpar-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// let log: Log<u32> = Log::open(&folder)?;
    /// log.append(&7)?;
    /// log.close()?;
    /// let built = Maintenance::at(&folder).build_parity(Parity::DEFAULT)?;
    /// assert!(built.open.is_empty());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_parity(&mut self, scheme: Scheme) -> Result<Protection> {
        self.run(|log, _| protection::build_parity(&log.storage, scheme))
    }

    /// Like [`run`](Self::run), for work that also returns the notes of what it reports.
    fn run_reporting<R>(
        &mut self,
        work: impl FnOnce(&LogFiles) -> Result<(R, Vec<String>)>,
    ) -> Result<R> {
        let is_later = self.reported.is_some();
        let (report, places) = self.run(|log, _| {
            let (report, places) = work(log)?;
            if !is_later {
                unreported::remove(&log.storage, &places);
            }
            Ok((report, places))
        })?;
        self.reported.iter_mut().for_each(|reported| reported.extend(places.iter().cloned()));
        Ok(report)
    }

    /// Opens the log for `work`, and names it in the errors.
    fn run<R>(
        &mut self,
        work: impl FnOnce(&LogFiles, &mut ProgressReporter<'_>) -> Result<R>,
    ) -> Result<R> {
        let unlocker = Unlocker::of(&self.options).map(Arc::new);
        let opened = unlocker.and_then(|by| Ok(LogFiles::new(self.log.open()?, by)));
        let mut reporter = ProgressReporter::new(&mut self.progress);
        opened.and_then(|log| work(&log, &mut reporter)).of_log_at(&self.log.path())
    }
}

fn open_all(replicas: &[Place]) -> Result<Vec<Arc<dyn Storage>>> {
    replicas.iter().map(Place::open).collect()
}

impl fmt::Debug for Maintenance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maintenance")
            .field("log", &self.log)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}
