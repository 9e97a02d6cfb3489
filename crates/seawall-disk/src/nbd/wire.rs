//! NBD's numbers and their encoding: big-endian.

#![allow(clippy::big_endian_bytes, reason = "NBD's numbers are big-endian")]

use std::io;

/// The first bytes of a server's greeting: "NBDMAGIC".
pub(crate) const GREETING: u64 = 0x4e42_444d_4147_4943;
/// The next bytes, and the first of each option: "IHAVEOPT".
pub(crate) const OPTION: u64 = 0x4948_4156_454f_5054;
/// Starts a reply to an option.
pub(crate) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// Starts a request.
pub(crate) const REQUEST: u32 = 0x2560_9513;
/// Starts a simple reply.
pub(crate) const SIMPLE_REPLY: u32 = 0x6744_6698;
/// Starts a chunk of a structured reply.
pub(crate) const CHUNK: u32 = 0x668e_33ef;

/// Handshake flags; the client sends back those that it shares.
pub(crate) mod hello {
    pub(crate) const FIXED_NEWSTYLE: u16 = 1 << 0;
    pub(crate) const NO_ZEROES: u16 = 1 << 1;
}

/// Options of a client.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
}

/// Answers to options.
pub(crate) mod answer {
    const ERROR: u32 = 1 << 31;

    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const UNSUPPORTED: u32 = ERROR + 1;
    pub(crate) const INVALID: u32 = ERROR + 3;
    pub(crate) const UNKNOWN: u32 = ERROR + 6;
    pub(crate) const TOO_BIG: u32 = ERROR + 9;
}

/// Kinds of information in an answer to `INFO` and `GO`.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags of an export.
pub(crate) mod can {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const FLUSH: u16 = 1 << 2;
    pub(crate) const FUA: u16 = 1 << 3;
    pub(crate) const TRIM: u16 = 1 << 5;
    pub(crate) const WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const DF: u16 = 1 << 7;
    pub(crate) const MULTI_CONN: u16 = 1 << 8;
}

/// Requests of a client.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const WRITE_ZEROES: u16 = 6;
}

/// Flags of a request.
pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1 << 0;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
}

/// Chunks of a structured reply.
pub(crate) mod chunk {
    /// The flag of the last chunk.
    pub(crate) const DONE: u16 = 1 << 0;

    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const ERROR: u16 = (1 << 15) + 1;
}

/// NBD error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// EPERM: the disk is read-only.
    ReadOnly,
    /// EIO: the device failed.
    Device,
    /// EINVAL: the request is invalid.
    Invalid,
    /// ENOSPC: the request is beyond the end.
    NoSpace,
    /// EOVERFLOW: the request is too long for one piece.
    TooLong,
    /// ESHUTDOWN: the server is shutting down.
    Shutdown,
}

impl Code {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::ReadOnly => 1,
            Self::Device => 5,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::TooLong => 75,
            Self::Shutdown => 108,
        }
    }
}

impl From<&io::Error> for Code {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::ReadOnlyFilesystem | Kind::PermissionDenied => Self::ReadOnly,
            Kind::InvalidInput => Self::Invalid,
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::NoSpace,
            _ => Self::Device,
        }
    }
}

/// Takes fields off the front of a message.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn bytes(&mut self, size: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(size).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }
}

pub(crate) fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(crate) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_errors_map_to_nbd_errors() {
        use io::ErrorKind as Kind;
        let number = |kind| Code::from(&io::Error::from(kind)).number();
        let numbers = [
            (Kind::ReadOnlyFilesystem, 1),
            (Kind::PermissionDenied, 1),
            (Kind::Other, 5),
            (Kind::InvalidInput, 22),
            (Kind::StorageFull, 28),
            (Kind::QuotaExceeded, 28),
        ];
        for (kind, expected) in numbers {
            assert_eq!(number(kind), expected, "{kind:?}");
        }
    }

    #[test]
    fn fields_never_exceed_the_message() {
        let mut fields = Fields(&[0, 1, 0, 0, 0, 2, 7]);
        assert_eq!((fields.u16(), fields.u32(), fields.u64()), (Some(1), Some(2), None));
        assert_eq!((fields.bytes(2), fields.bytes(1)), (None, Some(&[7][..])));
        assert_eq!(fields.u16(), None);
    }
}
