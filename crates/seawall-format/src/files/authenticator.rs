//! Authenticators prove, to a holder of the key, who wrote a header, a mark, a seal or a manifest
//! slot. format.md section 3.7.

use crate::checksum::Salt;
#[cfg(feature = "encryption")]
use crate::encryption::MacKey;
use crate::encryption::{KeyError, SegmentKeys};
use crate::encryption::{MAC_SIZE, Mac, Padding};
use crate::fields::{get, get_u32, put, slice, slice_mut, table};
use crate::files::manifest::closing::{CLOSING_AT, CLOSING_SIZE};
use crate::ids::{KeyNumber, Offset, SegmentId, to_u64};
use crate::refused::Refused;
use std::ops::Deref;

/// Offset of an authenticator in its structure, in bytes.
pub const AUTHENTICATOR_AT: usize = 256;

/// Size of an authenticator, in bytes.
pub const AUTHENTICATOR_SIZE: usize = 48;

/// The most bytes of a header, mark, seal or manifest slot, with its authenticator.
pub const STORED_MAX: usize = AUTHENTICATOR_AT + AUTHENTICATOR_SIZE;

table! {
    CRC = 0, 4, "crc";
    MAGIC = 4, 4, "magic";
    KEY = 8, 4, "key";
    PADDING = 12, 4, "padding";
    FROM = 16, 8, "from";
    KEYS = 24, 8, "keys";
    CODE = 32, 16, "code";
}

/// The fields of an authenticator, except for its checksum and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The log key that the code was made with.
    pub key: KeyNumber,
    /// In the manifest: how batches to come are padded.
    pub padding: Padding,
    /// In the manifest: the first segment that is encrypted. All later ones are.
    pub from: Option<SegmentId>,
    /// In the manifest: the lowest sequence of `keys` that is not an older copy.
    pub keys: u64,
}

impl Claims {
    /// The claims of a header, a mark or a seal.
    #[must_use]
    pub fn of(key: KeyNumber) -> Self {
        Self { key, padding: Padding::Off, from: None, keys: 0 }
    }
}

/// The authenticator of a structure, found beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authenticator {
    /// The fields, except for checksum and code.
    pub claims: Claims,
    code: Mac,
}

impl Authenticator {
    /// Decodes the authenticator of a structure of `size` bytes at `offset`, whose first sector is
    /// `sector`.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why there is none: then the structure is not valid either.
    pub fn decode(
        sector: &[u8],
        size: usize,
        offset: Offset,
        salt: &Salt,
    ) -> Result<Self, Refused> {
        let structure = sector.get(..size).ok_or(Refused::Invalid)?;
        let bytes = sector.get(AUTHENTICATOR_AT..).unwrap_or_default();
        Self::read(bytes, structure, (offset, salt))
    }

    /// Decodes the authenticator of `structure`, for `offset`, at the beginning of `bytes`.
    pub(crate) fn read(
        bytes: &[u8],
        structure: &[u8],
        (offset, salt): (Offset, &Salt),
    ) -> Result<Self, Refused> {
        let bytes = bytes.first_chunk::<AUTHENTICATOR_SIZE>().ok_or(Refused::Invalid)?;
        let crc = checksum(structure, bytes, (offset, salt));
        if get_u32(bytes, CRC) != crc || slice(bytes, MAGIC) != b"AUTH" {
            return Err(Refused::Invalid);
        }
        let claims = Claims {
            key: KeyNumber::new(get_u32(bytes, KEY)).ok_or(Refused::Invalid)?,
            padding: Padding::from_number(get_u32(bytes, PADDING))?,
            from: SegmentId::new(get(bytes, FROM)),
            keys: get(bytes, KEYS),
        };
        let code = slice(bytes, CODE).try_into().expect("a field of 16 bytes");
        Ok(Self { claims, code })
    }

    /// An authenticator without a code: the claims of a structure that is yet to be signed.
    #[must_use]
    pub fn unsigned(claims: Claims) -> Self {
        Self { claims, code: [0; MAC_SIZE] }
    }

    /// Returns this authenticator, if its claims are exactly these.
    pub(crate) fn with_claims(self, claims: Claims) -> Result<Self, Refused> {
        if self.claims == claims { Ok(self) } else { Err(Refused::Invalid) }
    }

    /// The bytes of the authenticator of this structure.
    #[must_use]
    pub fn encode(
        &self,
        structure: &[u8],
        offset: Offset,
        salt: &Salt,
    ) -> [u8; AUTHENTICATOR_SIZE] {
        let mut bytes = self.claims.encode();
        slice_mut(&mut bytes, CODE).copy_from_slice(&self.code);
        let crc = checksum(structure, &bytes, (offset, salt));
        put(&mut bytes, CRC, crc.into());
        bytes
    }
}

impl Claims {
    /// The authenticator without crc and code.
    fn encode(&self) -> [u8; AUTHENTICATOR_SIZE] {
        let mut bytes = [0; AUTHENTICATOR_SIZE];
        slice_mut(&mut bytes, MAGIC).copy_from_slice(b"AUTH");
        put(&mut bytes, KEY, self.key.get().into());
        put(&mut bytes, PADDING, self.padding.number());
        put(&mut bytes, FROM, self.from.map_or(0, SegmentId::get));
        put(&mut bytes, KEYS, self.keys);
        bytes
    }
}

#[cfg(feature = "encryption")]
impl Authenticator {
    /// Does [`check`](Self::check) with the keys of a segment.
    pub(crate) fn check_with(
        &self,
        structure: &[u8],
        offset: Offset,
        keys: &SegmentKeys,
    ) -> Result<(), KeyError> {
        self.check(structure, offset, keys.head())
    }
}

#[cfg(feature = "encryption")]
impl SegmentKeys {
    /// The authenticator of a header, mark or seal, whose bytes go to `offset`.
    pub(crate) fn authenticator(
        &self,
        structure: &[u8],
        offset: Offset,
        claims: Claims,
    ) -> Authenticator {
        Authenticator::new(structure, offset, (claims, self.head()))
    }
}

#[cfg(not(feature = "encryption"))]
impl Authenticator {
    /// There are no keys that could have signed.
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn check_with(
        &self,
        _: &[u8],
        _: Offset,
        keys: &SegmentKeys,
    ) -> Result<(), KeyError> {
        match *keys {}
    }
}

#[cfg(not(feature = "encryption"))]
impl SegmentKeys {
    /// There are no keys that could sign.
    pub(crate) fn authenticator(&self, _: &[u8], _: Offset, _: Claims) -> Authenticator {
        match *self {}
    }
}

#[cfg(feature = "encryption")]
impl Authenticator {
    /// The authenticator of `structure`, whose bytes go to `offset`.
    #[must_use]
    pub fn new(structure: &[u8], offset: Offset, (claims, key): (Claims, &MacKey)) -> Self {
        let (place, said) = (offset.0.to_le_bytes(), claims.encode());
        Self { claims, code: key.code(covered(structure, &place, &said)) }
    }

    /// Whether a holder of the key wrote `structure` for `offset`, with these claims.
    ///
    /// # Errors
    ///
    /// [`KeyError::Forged`] if not.
    pub fn check(&self, structure: &[u8], offset: Offset, key: &MacKey) -> Result<(), KeyError> {
        let (place, said) = (offset.0.to_le_bytes(), self.claims.encode());
        let is_right = key.matches(covered(structure, &place, &said), &self.code);
        if is_right { Ok(()) } else { Err(KeyError::Forged) }
    }
}

/// What the code covers: the structure, its offset, and the claims of the authenticator.
#[cfg(feature = "encryption")]
fn covered<'a>(structure: &'a [u8], place: &'a [u8; 8], said: &'a [u8]) -> [&'a [u8]; 3] {
    [structure, place, said.get(KEY.at..CODE.at).unwrap_or_default()]
}

/// A header, mark, seal or manifest slot as it is stored: with its authenticator, if it has one.
#[derive(Clone, Debug)]
pub struct Stored {
    bytes: [u8; STORED_MAX + CLOSING_SIZE],
    size: usize,
}

impl Stored {
    /// The same structure with the mark of a clean close.
    pub(crate) fn followed_by(mut self, closing: [u8; CLOSING_SIZE]) -> Self {
        let (_, after) = self.bytes.split_at_mut(CLOSING_AT);
        after.copy_from_slice(&closing);
        self.size = self.bytes.len();
        self
    }
}

impl Deref for Stored {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.size).unwrap_or_default()
    }
}

/// A structure as it is stored at `offset`: with its authenticator, if it has one.
pub(crate) fn with_authenticator(
    structure: &[u8],
    proof: Option<&Authenticator>,
    (offset, salt): (Offset, &Salt),
) -> Stored {
    let mut bytes = [0; STORED_MAX + CLOSING_SIZE];
    let (head, tail) = bytes.split_at_mut(AUTHENTICATOR_AT);
    let (tail, _) = tail.split_at_mut(AUTHENTICATOR_SIZE);
    head.iter_mut().zip(structure).for_each(|(byte, of)| *byte = *of);
    let size = match proof {
        Some(proof) => {
            tail.copy_from_slice(&proof.encode(structure, offset, salt));
            STORED_MAX
        }
        None => structure.len(),
    };
    Stored { bytes, size }
}

/// The checksum of an authenticator and its structure: of a write that stored one of them only,
/// neither is valid.
fn checksum(structure: &[u8], bytes: &[u8], (offset, salt): (Offset, &Salt)) -> u32 {
    let all = [structure, bytes.get(MAGIC.at..).unwrap_or_default()].concat();
    salt.checksum(place(offset), &all)
}

/// Where the authenticator of a structure at `offset` is.
fn place(offset: Offset) -> Offset {
    offset.plus(to_u64(AUTHENTICATOR_AT))
}

const _: () = {
    assert!(CODE.at + MAC_SIZE == AUTHENTICATOR_SIZE);
    assert!(STORED_MAX == CLOSING_AT);
    assert!(
        AUTHENTICATOR_AT + AUTHENTICATOR_SIZE <= crate::fields::sizes::SECTOR,
        "in the same sector"
    );
};

#[cfg(feature = "encryption")]
#[cfg(test)]
mod tests;
