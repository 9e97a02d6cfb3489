//! Blocks of LZ4: the one place that calls the library.

/// Decompresses `block` into `plain`. Returns whether it fills `plain` exactly.
pub(crate) fn decompress(block: &[u8], plain: &mut [u8]) -> bool {
    lz4_flex::block::decompress_into(block, plain).is_ok_and(|size| size == plain.len())
}

/// Compresses into blocks and reuses its memory.
pub(crate) struct Compressor {
    table: lz4_flex::block::CompressTable,
    block: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        Self { table: lz4_flex::block::CompressTable::large(), block: vec![] }
    }

    /// Compresses `plain` and returns the block.
    pub(crate) fn compress(&mut self, plain: &[u8]) -> &[u8] {
        let size_max = lz4_flex::block::get_maximum_output_size(plain.len());
        // The buffer never shrinks: bytes of an earlier block need not be cleared again.
        self.block.resize(size_max.max(self.block.len()), 0);
        let made =
            lz4_flex::block::compress_into_with_table(plain, &mut self.block, &mut self.table);
        let size = made.expect("there is room for the largest block");
        self.block.get(..size).expect("it lies in the room")
    }
}
