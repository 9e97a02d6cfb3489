//! Compresses chunks with the method of a log, and decompresses them. format.md section 3.6.

#[cfg(feature = "lz4")]
use crate::binary::lz4;
#[cfg(feature = "zstd")]
use crate::binary::zstd;
use crate::types::Compression;

/// Decompresses `payload` into `plain`. Returns whether it fills `plain` exactly.
///
/// Returns `false` without the library. A log that may need it was refused earlier.
pub(crate) fn decompress(method: Compression, payload: &[u8], plain: &mut [u8]) -> bool {
    match method {
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4::decompress(payload, plain),
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::decompress(payload, plain),
        _ => {
            let _ = (payload, plain);
            false
        }
    }
}

/// Compresses with one method and reuses its memory.
#[cfg(feature = "lz4")]
pub(crate) enum Compressor {
    Lz4(lz4::Compressor),
    #[cfg(feature = "zstd")]
    Zstd(zstd::Compressor),
}

#[cfg(feature = "lz4")]
impl Compressor {
    /// Returns a compressor for `method`; `None` if it is no compression, or this build lacks it.
    pub(crate) fn of(method: Compression) -> Option<Self> {
        match method {
            Compression::Lz4 => Some(Self::Lz4(lz4::Compressor::new())),
            #[cfg(feature = "zstd")]
            Compression::Zstd => Some(Self::Zstd(zstd::Compressor::new())),
            _ => None,
        }
    }

    pub(crate) fn method(&self) -> Compression {
        match self {
            Self::Lz4(_) => Compression::Lz4,
            #[cfg(feature = "zstd")]
            Self::Zstd(_) => Compression::Zstd,
        }
    }

    /// Returns `frames` as they are to be stored: compressed, if that saves at least an eighth.
    pub(crate) fn compress_if_smaller<'a>(
        &'a mut self,
        frames: &'a [u8],
    ) -> (Compression, &'a [u8]) {
        let (method, size_max) = (self.method(), less_an_eighth(frames.len()));
        let payload = match self {
            Self::Lz4(compressor) => compressor.compress(frames),
            #[cfg(feature = "zstd")]
            Self::Zstd(compressor) => compressor.compress(frames),
        };
        if payload.len() <= size_max { (method, payload) } else { (Compression::None, frames) }
    }
}

/// The largest compressed size of `size` bytes at which the saving is worth the time to decode it.
#[cfg(feature = "lz4")]
pub(crate) fn less_an_eighth(size: usize) -> usize {
    size - size / 8
}
