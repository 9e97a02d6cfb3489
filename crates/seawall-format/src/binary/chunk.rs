//! Chunks: the pieces of a compressed body. format.md section 3.6.

use crate::fields::table;

/// What a compressed body begins with.
pub(crate) mod prefix {
    crate::fields::table! {
        LENGTH = 0, 4, "length";
        PLAIN = 4, 4, "plain";
    }
}

table! {
    CRC = 0, 4, "crc";
    STORED = 4, 4, "stored";
    PLAIN = 8, 4, "plain";
    COUNT = 12, 4, "count";
    FIRST = 16, 8, "first";
    METHOD = 24, 1, "method";
    ZERO = 25, 7, "zero";
    PAYLOAD = 32, 0, "payload";
}
