//! Blocks of LZ4: the one place that calls the library.

/// Fills `plain` with what `block` holds. Returns whether that is exactly as much.
pub(crate) fn decompress(block: &[u8], plain: &mut [u8]) -> bool {
    lz4_flex::block::decompress_into(block, plain).is_ok_and(|size| size == plain.len())
}

/// Makes blocks, in memory that it keeps.
pub(crate) struct Compressor {
    table: lz4_flex::block::CompressTable,
    block: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        Self { table: lz4_flex::block::CompressTable::large(), block: vec![] }
    }

    /// The block with these bytes.
    pub(crate) fn compress(&mut self, plain: &[u8]) -> &[u8] {
        let size_max = lz4_flex::block::get_maximum_output_size(plain.len());
        // Never smaller: a block that was written before need not be cleared.
        self.block.resize(size_max.max(self.block.len()), 0);
        let made =
            lz4_flex::block::compress_into_with_table(plain, &mut self.block, &mut self.table);
        let size = made.expect("there is room for the largest block");
        self.block.get(..size).expect("it lies in the room")
    }
}
