//! Which part of a damaged line has changed.

use crate::binary::changed::ChangedPart;
use crate::checksum::Salt;
use crate::ids::Lsn;
use crate::text::canonical;
use crate::text::line::{Found, MEMBERS, checksum, hex, parsed, read};
use serde_json::value::RawValue;

/// If only the stated checksum has changed, it differs from the right one in few digits. A changed
/// value changes all digits of the right one; at most two differ by chance once in 600,000 times.
const DIGITS_MAX: usize = 2;

/// The part of `line` that has changed; `None` if it is valid.
#[must_use]
pub fn changed_part(line: &[u8], salt: &Salt) -> Option<ChangedPart> {
    if let Found::Line(_) = read(line, salt) {
        return None;
    }
    let Ok(text) = serde_json::from_slice::<&RawValue>(line) else {
        return Some(ChangedPart::NotJson);
    };
    Some(changed_in(text.get(), salt).unwrap_or(ChangedPart::Members))
}

/// Returns the part that has changed; `None` if the members are not those of a line.
fn changed_in(text: &str, salt: &Salt) -> Option<ChangedPart> {
    let mut members = canonical::members(text)?;
    let stated = members.remove("crc")?;
    let lsn = Lsn::new(parsed(members.get("lsn")?)?)?;
    members.get("confirmed")?;
    let content = [members.get("data"), members.get("void")];
    let has_others = members.keys().any(|name| !MEMBERS.contains(&name.as_ref()));
    if has_others || content.iter().flatten().count() != 1 {
        return None;
    }
    let digit = |digit: &u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit);
    let Some(stated) = parsed::<String>(stated)
        .and_then(|stated| <[u8; 8]>::try_from(stated.into_bytes()).ok())
        .filter(|stated| stated.iter().all(digit))
    else {
        return Some(ChangedPart::Checksum);
    };
    let Some(right) = checksum(&members, lsn, salt).map(hex) else {
        return Some(ChangedPart::Value);
    };
    let differing = stated.iter().zip(right).filter(|(stated, right)| *stated != right).count();
    Some(if differing <= DIGITS_MAX { ChangedPart::Checksum } else { ChangedPart::Value })
}
