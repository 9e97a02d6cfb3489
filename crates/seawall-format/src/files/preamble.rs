//! The first 16 bytes of a header and of a manifest slot: the same in every version.

use crate::checksum::crc32c;
use crate::fields::{Field, get, get_u32, put, slice, slice_mut, table};
use crate::refused::{DRAFT, Refused, VERSION};

table! {
    MAGIC = 0, 8, "magic";
    VERSION_FIELD = 8, 2, "version";
    DRAFT_FIELD = 10, 2, "draft";
    CRC = 12, 4, "preamble crc";
}

const SIZE: usize = CRC.at + CRC.size;

pub(crate) fn encode(bytes: &mut [u8], magic: [u8; 8]) {
    slice_mut(bytes, MAGIC).copy_from_slice(&magic);
    put(bytes, VERSION_FIELD, u64::from(VERSION));
    put(bytes, DRAFT_FIELD, u64::from(DRAFT));
    let crc = crc32c(covered(bytes));
    put(bytes, CRC, u64::from(crc));
}

/// Refuses bytes that are kept for later if they are not zero: a newer program wrote them.
pub(crate) fn kept_for_later(bytes: &[u8], fields: &[Field]) -> Result<(), Refused> {
    match fields.iter().find(|field| slice(bytes, **field).iter().any(|byte| *byte != 0)) {
        None => Ok(()),
        Some(Field { at, size, .. }) => {
            let what = format!("something in bytes {at} to {}, kept for later", at + size);
            Err(Refused::Unknown { what })
        }
    }
}

/// Refuses a structure of another kind or version. Looks only at the first 16 bytes of `bytes`, so
/// that a newer structure is recognised even if it is shorter than today's.
pub(crate) fn check(bytes: &[u8], magic: [u8; 8]) -> Result<(), Refused> {
    let bytes = bytes.first_chunk::<SIZE>().ok_or(Refused::Invalid)?;
    if *slice(bytes, MAGIC) != magic || crc32c(covered(bytes)) != get_u32(bytes, CRC) {
        return Err(Refused::Invalid);
    }
    let number = |field| u16::try_from(get(bytes, field)).expect("a field of 2 bytes");
    let (version, draft) = (number(VERSION_FIELD), number(DRAFT_FIELD));
    if (version, draft) != (VERSION, DRAFT) {
        return Err(Refused::OtherVersion { version, draft });
    }
    Ok(())
}

fn covered(bytes: &[u8]) -> &[u8] {
    bytes.get(..CRC.at).expect("the structure begins with a preamble")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::keys::WrappedKeys;
    use crate::files::parity;
    use crate::{Manifest, Offset, SegmentHeader};

    #[test]
    fn drafts_and_earlier_versions_are_refused() {
        for (version, draft) in [(0, 0), (0, 2), (VERSION, 1), (VERSION, 2), (VERSION + 1, 0)] {
            let mut bytes = [0; 16];
            encode(&mut bytes, *b"SEAWALLS");
            assert_eq!(check(&bytes, *b"SEAWALLS"), Ok(()));
            put(&mut bytes, VERSION_FIELD, u64::from(version));
            put(&mut bytes, DRAFT_FIELD, u64::from(draft));
            let crc = crc32c(covered(&bytes));
            put(&mut bytes, CRC, u64::from(crc));
            let refused = Refused::OtherVersion { version, draft };
            assert_eq!(check(&bytes, *b"SEAWALLS"), Err(refused));
            // With another magic, the version has no meaning.
            assert_eq!(check(&bytes, *b"SEAWALLM"), Err(Refused::Invalid));
        }
    }

    #[test]
    fn newer_structures_are_recognised_by_their_first_bytes() {
        let newer = |magic: &[u8; 8]| {
            let mut bytes = [0; SIZE];
            encode(&mut bytes, *magic);
            put(&mut bytes, VERSION_FIELD, u64::from(VERSION) + 1);
            let crc = crc32c(covered(&bytes));
            put(&mut bytes, CRC, u64::from(crc));
            bytes
        };
        let refused = Refused::OtherVersion { version: VERSION + 1, draft: DRAFT };
        let found = [
            Manifest::decode(&newer(b"SEAWALLM"), Offset(0)).err(),
            SegmentHeader::decode(&newer(b"SEAWALLS")).err(),
            parity::Head::decode(&newer(b"SEAWALLP")).err(),
            WrappedKeys::decode(&newer(b"SEAWALLK"), Offset(0)).err(),
        ];
        for found in found {
            assert_eq!(found, Some(refused.clone()));
        }
        assert_eq!(check(&newer(b"SEAWALLS")[..SIZE - 1], *b"SEAWALLS"), Err(Refused::Invalid));
    }

    #[test]
    fn refusal_names_the_found_and_the_supported_version() {
        let says = |version, draft| Refused::OtherVersion { version, draft }.to_string();
        assert_eq!(says(3, 0), "format version 3; this program reads version 1");
        let drafts = [(0, 0), (0, 2), (1, 4)];
        for (version, draft) in drafts {
            assert_eq!(
                says(version, draft),
                format!(
                    "draft {draft} of a format, version {version}, that was for trial; this \
                     program reads version 1"
                )
            );
        }
        let unknown = Refused::Unknown { what: "codec 9".to_owned() };
        assert_eq!(unknown.to_string(), "codec 9, unknown to this program");
        assert_eq!(Refused::Invalid.to_string(), "not valid");
    }
}
