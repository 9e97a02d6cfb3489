//! Stand-ins for the encryption that a build lacks: none of them can be called.

use crate::binary::batch::{BatchHeader, Life, Spec};
use crate::binary::encoded::IntactChunk;
use crate::encryption::{KeyError, SegmentKeys};
use crate::ids::{Lsn, Offset};
use std::io;

impl SegmentKeys {
    /// There are no keys that could decrypt.
    ///
    /// # Errors
    ///
    /// None.
    pub fn open(
        &self,
        _: (&BatchHeader, &[u8]),
        _: (Offset, &Life),
        _: &mut Vec<u8>,
    ) -> Result<bool, KeyError> {
        match *self {}
    }

    /// There are no keys that could decrypt.
    ///
    /// # Errors
    ///
    /// None.
    pub fn salvage(
        &self,
        _: &[u8],
        _: (Offset, &Life),
        _: ((Lsn, Lsn), &mut Vec<u8>),
    ) -> Result<Vec<IntactChunk>, KeyError> {
        match *self {}
    }
}

/// The encryptor that a build without encryption lacks.
#[derive(Debug)]
pub enum Encryptor {}

/// The encrypted chunks that a build without encryption lacks.
#[derive(Debug)]
pub enum EncryptedChunks {}

impl Encryptor {
    /// There are no keys that could encrypt.
    ///
    /// # Errors
    ///
    /// None.
    pub fn encode(
        &self,
        _: (&[u8], Spec),
        _: (Offset, &Life),
        _: &mut Vec<u8>,
    ) -> io::Result<Spec> {
        match *self {}
    }

    /// There are no keys that could encrypt.
    ///
    /// # Errors
    ///
    /// None.
    pub fn encrypt(
        &self,
        _: (&[u8], Spec),
        _: (Offset, &Life),
        _: &mut Vec<u8>,
    ) -> io::Result<EncryptedChunks> {
        match *self {}
    }

    /// There are no keys that could authenticate.
    #[must_use]
    pub fn authenticate(&self, _: EncryptedChunks, _: u64, _: (Offset, &mut [u8])) -> Spec {
        match *self {}
    }

    /// There are no encrypted batches.
    #[must_use]
    pub fn size(&self, _: &[u8], _: u32, _: &Life) -> Option<usize> {
        match *self {}
    }
}
