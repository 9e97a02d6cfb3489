//! Reads the intact records of a log, and selects the damage that affects records from an LSN on.

use seawall::damage::Damage;
use seawall::verify::Verification;
use seawall::{Error, LogReader, Lsn, Raw, Record};

/// Passes every intact record to `visit`, oldest first, until `visit` returns false.
pub(in crate::commands) fn visit_intact(
    reader: LogReader<[u8], Raw>,
    mut visit: impl FnMut(&Record<'_>) -> bool,
) -> Result<(), Error> {
    let reader = reader.skip_damaged(true);
    let mut cursor = reader.cursor(reader.oldest()?)?;
    loop {
        match cursor.next_record() {
            Ok(Some(record)) if visit(&record) => {}
            Ok(_) => return Ok(()),
            Err(Error::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The damage that may have cost records from `from` on.
pub(in crate::commands) fn damage_from(
    found: &Verification,
    from: Lsn,
) -> impl Iterator<Item = &Damage> {
    let end = |damage: &Damage| damage.lost.and_then(|lost| lost.to);
    found.damage.iter().filter(move |damage| end(damage).is_none_or(|end| from <= end))
}

/// The LSN of the next record that is appended to a log with `oldest` as its first record: the
/// records that a repair gave up keep their LSNs.
pub(in crate::commands) fn next_lsn(found: &Verification, oldest: Lsn) -> Lsn {
    let given_up = found.given_up.iter().filter_map(|lost| lost.to);
    given_up.chain(found.last_lsn).map(Lsn::next).fold(oldest, Lsn::max)
}
