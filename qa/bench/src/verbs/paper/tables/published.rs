//! Tables I and II as the paper prints them.

use super::super::Format;

/// Number of records that each configuration writes and reads.
pub(super) const RECORDS: f64 = 2_000_000.0;

/// The three metrics of a table, each in the configurations A, B and C.
pub(super) struct Results {
    /// Time for [`RECORDS`] records, in seconds.
    pub(super) seconds: [f64; 3],
    /// Megabytes (10^6 bytes) per second.
    pub(super) megabytes: [f64; 3],
    /// Records per second.
    pub(super) records: [f64; 3],
}

impl Format {
    /// Table I.
    pub(super) fn published_write(self) -> Results {
        match self {
            Self::Json => Results {
                seconds: [8.461, 4.982, 3.154],
                megabytes: [70.187, 110.953, 168.924],
                records: [236_389.85, 401_412.97, 634_115.41],
            },
            Self::MessagePack => Results {
                seconds: [7.179, 3.858, 2.171],
                megabytes: [32.359, 57.743, 99.561],
                records: [278_574.81, 518_376.44, 921_404.22],
            },
        }
    }

    /// Table II.
    pub(super) fn published_read(self) -> Results {
        match self {
            Self::Json => Results {
                seconds: [5.938, 5.714, 5.423],
                megabytes: [99.997, 96.740, 98.242],
                records: [336_791.05, 349_993.0, 368_785.96],
            },
            Self::MessagePack => Results {
                seconds: [0.709, 0.561, 0.526],
                megabytes: [327.858, 396.977, 410.695],
                records: [2_822_466.84, 3_563_791.87, 3_800_836.18],
            },
        }
    }
}
