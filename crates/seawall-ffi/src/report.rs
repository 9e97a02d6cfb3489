//! Reports: what opening a log found, and what a verification found.

use crate::error::{Error, c_text, number, pointer};
use crate::fault::Fault;
use crate::guard;
use crate::pointer::{Freed, In, Kind, Out, Shared, Shows};
use crate::status::Status;
use seawall::Maintenance;
use seawall::format::SegmentId;
use seawall::recovery::TailState as LogTail;
use seawall::verify::{Verdict as LogVerdict, Verification as LogVerification};
use std::ffi::{CString, c_char};

/// The state of the end of a log.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum TailState {
    /// The log ends with its last record.
    Clean = 0,
    /// A write was in progress that was not acknowledged: the usual trace of a crash.
    Torn = 1,
    /// A torn write or damage; both look the same.
    Ambiguous = 2,
}

/// The result of a verification. Programs must expect new ones.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// All records are intact.
    Clean = 0,
    /// All records are intact; the log ends with a write that was not acknowledged.
    Torn = 1,
    /// The log ends with a torn write or damage.
    Unsure = 2,
    /// Damaged, but every record is readable.
    Correctable = 3,
    /// Damaged, and records are lost.
    Lost = 4,
    /// A verdict that this version of the interface has no number for.
    Other = 5,
}

/// One place where stored bytes differ from what was written.
#[repr(C)]
#[derive(Debug)]
pub struct Damage {
    /// The segment; 0 for the manifest.
    pub segment: u64,
    /// The first damaged byte in the file.
    pub offset: u64,
    /// How many bytes cannot be trusted.
    pub size: u64,
    /// The first lost record; 0 if none is lost.
    pub lost_from: u64,
    /// The last lost record; 0 if none is lost, or if the end is unknown.
    pub lost_to: u64,
    /// What is damaged, in English.
    pub text: *const c_char,
}

/// What opening a log found. It never changes.
#[repr(C)]
#[derive(Debug)]
pub struct Recovery {
    /// 1 if this call created the log, otherwise 0.
    pub created: i32,
    /// The state of the end.
    pub tail: TailState,
    /// The first record; 0 if there is none.
    pub first: u64,
    /// The last record; 0 if there is none. Everything up to it is durable.
    pub last: u64,
    /// How many bytes after the last record were removed.
    pub removed_size: u64,
    /// The file in the log's directory that keeps them; null if there is none.
    pub quarantine: *const c_char,
    /// Damage that stays, with SEAWALL_OPEN_MODE_SALVAGE.
    pub damage: *const Damage,
    /// How many places.
    pub damage_count: usize,
    /// Problems that affect no record, for an operator, in English.
    pub warnings: *const *const c_char,
    /// How many.
    pub warning_count: usize,
}

/// What a verification found. It never changes, so threads may share it.
#[repr(C)]
#[derive(Debug)]
pub struct Verification {
    /// The result.
    pub verdict: Verdict,
    /// The state of the end.
    pub tail: TailState,
    /// How many records are intact.
    pub records: u64,
    /// The first intact record; 0 if there is none.
    pub first: u64,
    /// The last intact record; 0 if there is none.
    pub last: u64,
    /// All damage, in the order of the log.
    pub damage: *const Damage,
    /// How many places.
    pub damage_count: usize,
}

/// What a report points to.
#[derive(Debug, Default)]
struct Owned {
    /// The texts of the damage, and the quarantine.
    texts: Vec<CString>,
    damage: Vec<Damage>,
    warnings: Vec<*const c_char>,
}

impl Owned {
    fn add(&mut self, text: impl AsRef<[u8]>) -> *const c_char {
        self.texts.push(c_text(text));
        // Not before: moving a `CString` ends what its pointers may be used for.
        pointer(self.texts.last())
    }

    fn of(damage: &[seawall::damage::Damage]) -> Self {
        let mut owned = Self::default();
        for place in damage {
            let lost = place.lost;
            let text = owned.add(place.to_string());
            owned.damage.push(Damage {
                segment: place.segment.map_or(0, SegmentId::get),
                offset: place.offset.0,
                size: place.bytes,
                lost_from: lost.map_or(0, |lost| lost.from.get()),
                lost_to: number(lost.and_then(|lost| lost.to)),
                text,
            });
        }
        owned
    }
}

/// The report of a recovery and what it points to.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RecoveryObject {
    shown: Shared<Recovery>,
    owned: Shared<Owned>,
}

impl RecoveryObject {
    pub(crate) fn new(found: &seawall::Recovery) -> Self {
        let mut owned = Owned::of(&found.damage);
        let quarantine = found.quarantine.as_ref().map(|name| owned.add(name));
        for warning in &found.warnings {
            let warning = owned.add(warning);
            owned.warnings.push(warning);
        }
        let shown = Recovery {
            created: i32::from(found.created),
            tail: tail(found.tail),
            first: number(found.first),
            last: number(found.last),
            removed_size: found.cut_bytes,
            quarantine: quarantine.unwrap_or(pointer(None)),
            damage: owned.damage.as_ptr(),
            damage_count: owned.damage.len(),
            warnings: owned.warnings.as_ptr(),
            warning_count: owned.warnings.len(),
        };
        Self { shown: Shared(shown), owned: Shared(owned) }
    }

    pub(crate) fn shown(&self) -> *const Recovery {
        std::ptr::from_ref(self).cast()
    }
}

/// The report of a verification and what it points to.
#[repr(C)]
#[derive(Debug)]
struct VerificationObject {
    shown: Verification,
    kind: Kind,
    owned: Owned,
}

impl Shows<Verification> for VerificationObject {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b09;

    fn kind(&self) -> &Kind {
        &self.kind
    }
}

fn tail(state: LogTail) -> TailState {
    match state {
        LogTail::Clean => TailState::Clean,
        LogTail::Torn => TailState::Torn,
        LogTail::Ambiguous => TailState::Ambiguous,
    }
}

fn verdict(found: LogVerdict) -> Verdict {
    match found {
        LogVerdict::Clean => Verdict::Clean,
        LogVerdict::Torn => Verdict::Torn,
        LogVerdict::Unsure => Verdict::Unsure,
        LogVerdict::Correctable => Verdict::Correctable,
        LogVerdict::Lost => Verdict::Lost,
        _ => Verdict::Other,
    }
}

/// Verifies every byte of the log in the directory `path`, also while a writer has it open. Damage
/// is not an error: the report lists it. Free the report with seawall_verification_free.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_verify(
    path: In<c_char>,
    verification: Out<*mut Verification>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        verification.required("verification")?;
        verification.put(std::ptr::null_mut());
        give_verification(&Maintenance::at(path.path("path")?).verify()?, &verification);
        Ok::<_, Fault>(Status::Ok)
    })
}

/// Gives a report to C.
pub(crate) fn give_verification(found: &LogVerification, place: &Out<*mut Verification>) {
    let owned = Owned::of(&found.damage);
    let shown = Verification {
        verdict: verdict(found.verdict),
        tail: tail(found.tail),
        records: found.records,
        first: number(found.first_lsn),
        last: number(found.last_lsn),
        damage: owned.damage.as_ptr(),
        damage_count: owned.damage.len(),
    };
    let kind = Kind::new(VerificationObject::KIND);
    let object = VerificationObject { shown, kind, owned };
    place.put(Box::into_raw(Box::new(object)).cast());
}

/// Releases a report; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_verification_free(verification: Freed<Verification>) {
    guard::bare(|| verification.take_whole::<VerificationObject>().map(drop));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn texts_of_a_report_are_read_after_it_moved() {
        let mut owned = Owned::default();
        let texts = ["one", "two", "three"];
        let places = texts.map(|text| owned.add(text));
        let moved = Box::new(Shared(owned));
        for (place, text) in places.into_iter().zip(texts) {
            // SAFETY: the text belongs to the report, which is alive.
            assert_eq!(unsafe { CStr::from_ptr(place) }.to_str(), Ok(text));
        }
        assert_eq!(moved.0.texts.len(), 3);
    }
}
