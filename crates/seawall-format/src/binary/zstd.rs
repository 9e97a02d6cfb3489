//! Frames of Zstandard: the one place that calls the library.

use std::cell::RefCell;
use zstd_safe::{CCtx, CParameter, DCtx};

/// Level 1: level 3 gains 3 % and takes a tenth to a third more time.
const LEVEL: i32 = 1;

/// The largest chunk, in bytes, that the default window of the level holds.
const WINDOW: usize = 1 << 19;

/// The magic number that begins a frame, and the next byte except for the bits that give the size
/// of the size field: one segment, no checksum, no dictionary.
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
const ONE_SEGMENT: u8 = 1 << 5;

thread_local! {
    // Kept for each thread: a decoder has 100 KiB, too much to allocate for each chunk.
    static DECODER: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Fills `plain` with what `frame` holds. Returns whether that is exactly as much, and the frame
/// has the one form that the format allows: its window is the chunk.
pub(crate) fn decompress(frame: &[u8], plain: &mut [u8]) -> bool {
    if size(frame) != Some(plain.len())
        || zstd_safe::find_frame_compressed_size(frame) != Ok(frame.len())
    {
        return false;
    }
    let decode = |decoder: &RefCell<DCtx<'_>>| decoder.borrow_mut().decompress(plain, frame);
    DECODER.with(decode) == Ok(plain.len())
}

/// Returns the decompressed size that a frame states; `None` if its form is not the allowed one.
fn size(frame: &[u8]) -> Option<usize> {
    let (descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    if descriptor & 0x3F != ONE_SEGMENT {
        return None;
    }
    let (length, least) = match descriptor >> 6 {
        0 => (1, 0),
        1 => (2, 256),
        2 => (4, 0),
        _ => (8, 0),
    };
    let mut size = [0; 8];
    size.get_mut(..length)?.copy_from_slice(rest.get(..length)?);
    usize::try_from(u64::from_le_bytes(size)).ok()?.checked_add(least)
}

/// Compresses into frames and reuses its memory.
pub(crate) struct Compressor {
    encoder: CCtx<'static>,
    frame: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        let mut encoder = CCtx::create();
        let set = encoder.set_parameter(CParameter::CompressionLevel(LEVEL));
        set.expect("the library has the level");
        Self { encoder, frame: vec![] }
    }

    /// Compresses `plain` and returns the frame.
    pub(crate) fn compress(&mut self, plain: &[u8]) -> &[u8] {
        // A frame has one segment only if its window holds all.
        let bits = if plain.len() > WINDOW { plain.len().next_power_of_two().ilog2() } else { 0 };
        let set = self.encoder.set_parameter(CParameter::WindowLog(bits));
        set.expect("a batch is smaller than the largest window");
        self.frame.clear();
        self.frame.reserve(zstd_safe::compress_bound(plain.len()));
        let made = self.encoder.compress2(&mut self.frame, plain);
        made.expect("there is room for the largest frame");
        &self.frame
    }
}

#[cfg(test)]
mod tests;
