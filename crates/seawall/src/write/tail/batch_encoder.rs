//! Compresses or encrypts batches on their way to the device, and tells how large they become.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use seawall_format::batch::{HEADER_SIZE, Life, Spec};
use seawall_format::encoded::Encoder;
use seawall_format::encrypted::Encryptor;
use seawall_format::{EncryptedSizes, Lsn, Manifest, Offset, SegmentHeader};
use std::io;
use std::sync::Arc;

/// Attempts to draw a nonce for a batch.
#[cfg(feature = "encryption")]
const DRAWS_MAX: u32 = 3;

/// Encodes the batches of one segment.
#[derive(Debug)]
pub(crate) enum BatchEncoder {
    /// Compresses the batches that shrink.
    Plain(Encoder),
    /// Encrypts all batches, and may compress them first.
    #[cfg_attr(
        not(feature = "encryption"),
        expect(dead_code, reason = "without the feature no log has keys")
    )]
    Encrypting(Arc<Encryptor>, EncryptedSizes),
}

impl BatchEncoder {
    /// The encoder for the batches of the segment with this header; `None` if they are stored as
    /// they are.
    pub(crate) fn of(env: &Env, header: &SegmentHeader, log: &Manifest) -> Result<Option<Self>> {
        if header.authenticator.is_some() {
            return Self::encrypting(env, header, log).map(Some);
        }
        let encoder = || Encoder::of(log.compression, env.encode_sizes).map(Self::Plain);
        Ok(if header.compression_max >= log.compression { encoder() } else { None })
    }

    /// Encrypts the batches of the segment with this header.
    #[cfg(feature = "encryption")]
    #[inline(never)]
    fn encrypting(env: &Env, header: &SegmentHeader, log: &Manifest) -> Result<Self> {
        use seawall_format::encryption::{KeyError, NONCE_SIZE};

        let keys = env.keys().ok_or(KeyError::NoKey).and_then(|keys| keys.derive(header));
        let keys = keys.map_err(Error::key(None))?;
        let padding = log.authenticator.map(|proof| proof.claims.padding).unwrap_or_default();
        let sizes = EncryptedSizes { chunk_max: env.encode_sizes.chunk_max, padding };
        let entropy = env.entropy.clone();
        let draw = move || {
            let mut nonce = [0; NONCE_SIZE];
            // The batch may hold buffered records that are acknowledged, so a passing failure must
            // not fail the batch, just as a failed write does not.
            let drawn = (1..DRAWS_MAX).find_map(|_| entropy.fill(&mut nonce).ok());
            drawn.map_or_else(|| entropy.fill(&mut nonce), Ok).map(|()| nonce)
        };
        let encryptor = Encryptor::new(keys, sizes, draw);
        #[cfg(feature = "lz4")]
        let encryptor = encryptor.with_compression(log.compression);
        Ok(Self::Encrypting(Arc::new(encryptor), sizes))
    }

    /// Without the feature there are no keys.
    #[cfg(not(feature = "encryption"))]
    fn encrypting(env: &Env, header: &SegmentHeader, _: &Manifest) -> Result<Self> {
        env.keys_of(header).map(|keys| match *keys.expect("an encrypted segment") {})
    }

    /// Returns the encryptor for `count` frames, which works without the writer, and the size of
    /// the encrypted batch with its header. `None` if the size is known only after encoding.
    pub(crate) fn encryptor(
        &self,
        plain: &[u8],
        count: u32,
        life: &Life,
    ) -> Option<(Arc<Encryptor>, usize)> {
        let Self::Encrypting(encryptor, _) = self else { return None };
        let size = encryptor.size(plain, count, life);
        let size = size.filter(|size| to_u64(*size) <= u64::from(life.batch_max))?;
        Some((encryptor.clone(), size))
    }

    /// Encodes a batch for the place `at` into `stored`, as [`Encryptor::encode`] does. `None` if
    /// it is to be stored as it is.
    ///
    /// # Errors
    ///
    /// No random bits could be drawn, or the batch becomes larger than the segment allows.
    pub(crate) fn encode(
        &mut self,
        (plain, spec): (&[u8], Spec),
        (at, life): (Offset, &Life),
        stored: &mut Vec<u8>,
    ) -> io::Result<Option<Spec>> {
        match self {
            Self::Plain(encoder) => Ok(encoder.encode((plain, spec), (at, life), stored)),
            Self::Encrypting(encryptor, sizes) => {
                let size = sizes.size_max(plain.len().saturating_sub(HEADER_SIZE));
                if to_u64(size) > u64::from(life.batch_max) {
                    return Err(io::Error::other("a batch is too large to be encrypted"));
                }
                encryptor.encode((plain, spec), (at, life), stored).map(Some)
            }
        }
    }
}

/// The error of a batch that begins with record `first`.
pub(crate) fn cannot_encrypt(first: Lsn) -> impl FnOnce(io::Error) -> Error {
    Error::io(format!("encrypt the batch of record {first}"))
}

/// How much larger than its frames a batch can be on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overhead {
    /// Maximum number of bytes per record in addition to its frame.
    pub(crate) per_record: u64,
    /// How batches are encrypted, if they are.
    pub(crate) encrypted: Option<EncryptedSizes>,
    /// The largest batch, in bytes.
    pub(crate) batch_max: usize,
}

impl Overhead {
    /// The overhead of batches of this log.
    pub(crate) fn of(env: &Env, log: &Manifest) -> Self {
        let encrypted = log.authenticator.map(|proof| EncryptedSizes {
            chunk_max: env.encode_sizes.chunk_max,
            padding: proof.claims.padding,
        });
        let batch_max = usize::try_from(log.geometry.batch_max).expect("at most 64 MiB");
        Self { per_record: log.layout.record_overhead_max(), encrypted, batch_max }
    }

    /// No overhead.
    pub(crate) const NONE: Self = Self { per_record: 0, encrypted: None, batch_max: usize::MAX };

    /// Maximum size after encoding of a batch that has `bytes` bytes before, header included.
    #[inline]
    pub(crate) fn size_max(&self, bytes: usize, records: u32) -> u64 {
        let size = self.encrypted.map_or(bytes, |sizes| {
            sizes.padded_max(bytes.saturating_sub(HEADER_SIZE), self.batch_max)
        });
        to_u64(size) + u64::from(records) * self.per_record
    }

    /// Maximum size of a batch before it is encoded, header included.
    pub(crate) fn plain_max(&self) -> usize {
        let encrypted = |sizes: EncryptedSizes| HEADER_SIZE + sizes.frames_max(self.batch_max);
        self.encrypted.map_or(self.batch_max, encrypted)
    }
}
