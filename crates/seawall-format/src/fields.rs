//! Byte tables: the offset of each field of a fixed-size structure, and access to it.

pub(crate) mod sizes;

/// One field of a byte table of format.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset in the structure, in bytes.
    pub at: usize,
    /// Size in bytes; 0 for a field whose size another field states.
    pub size: usize,
    /// Its name in format.md.
    pub name: &'static str,
}

/// The fields of one structure, in order and without gaps.
pub type Table = &'static [Field];

/// Declares the fields of a structure, and `TABLE` with all of them.
macro_rules! table {
    ($($name:ident = $at:literal, $size:literal, $text:literal;)*) => {
        $(#[allow(dead_code, reason = "padding and repeated preamble fields are only listed")]
        pub(crate) const $name: crate::fields::Field =
            crate::fields::Field { at: $at, size: $size, name: $text };)*
        pub(crate) const TABLE: crate::fields::Table = &[$($name),*];
        const _: () = crate::fields::assert_no_gaps(TABLE);
    };
}
pub(crate) use table;

pub(crate) const fn assert_no_gaps(table: Table) {
    let mut rest = table;
    let mut end = 0;
    while let [field, behind @ ..] = rest {
        assert!(field.at == end, "fields follow each other without gaps");
        end = field.at + field.size;
        rest = behind;
    }
}

/// The number in a field of up to 8 bytes.
///
/// # Panics
///
/// If the field does not lie in `bytes`, or is larger than 8 bytes: callers hold arrays of the
/// structure's size.
#[inline]
pub(crate) fn get(bytes: &[u8], field: Field) -> u64 {
    let mut whole = [0; 8];
    let (number, _) = whole.split_at_mut(field.size);
    number.copy_from_slice(slice(bytes, field));
    u64::from_le_bytes(whole)
}

/// Puts `number` into a field of up to 8 bytes.
///
/// # Panics
///
/// If the number does not fit: callers hold it in the range that format.md names.
#[inline]
pub(crate) fn put(bytes: &mut [u8], field: Field, number: u64) {
    let whole = number.to_le_bytes();
    let (low, high) = whole.split_at(field.size);
    assert!(high.iter().all(|byte| *byte == 0), "{} does not fit its field", field.name);
    slice_mut(bytes, field).copy_from_slice(low);
}

/// A 32-bit number in a field of 4 bytes.
#[inline]
pub(crate) fn get_u32(bytes: &[u8], field: Field) -> u32 {
    u32::try_from(get(bytes, field)).expect("a field of at most 4 bytes")
}

/// The bytes of a field.
#[inline]
pub(crate) fn slice(bytes: &[u8], field: Field) -> &[u8] {
    bytes.get(field.at..field.at + field.size).expect("the structure holds its fields")
}

/// The bytes of a field, to be filled.
#[inline]
pub(crate) fn slice_mut(bytes: &mut [u8], field: Field) -> &mut [u8] {
    bytes.get_mut(field.at..field.at + field.size).expect("the structure holds its fields")
}

/// The bytes that a checksum covers: everything after the field that contains it.
#[inline]
pub(crate) fn behind(bytes: &[u8], field: Field) -> &[u8] {
    bytes.get(field.at + field.size..).expect("the structure holds its fields")
}

/// Whether all these bytes are zero.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_le_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}
