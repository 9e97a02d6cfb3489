//! The writer of `CWal`, rebuilt from its source. A length of 8 bytes, the data and a table-based
//! CRC-32 go to a buffered stream. A sync opens the file a second time, syncs that handle, and
//! closes it.

use seawall_host::RawFile;
use seawall_io::{File, PosixStorage, Storage};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the benchmarks of `CWal` append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// `benchmark_write`: optionally flushes after each append, and syncs after every n-th.
    Regular { flush: bool, sync: Option<u64> },
    /// `batched_sync_benchmarks`: syncs after each append, and returns to the start of the file
    /// after every n appends.
    Batched(u64),
}

/// The buffer size of a file stream in libstdc++.
const BUFFER: usize = 8191;

pub(super) struct Writer {
    method: Method,
    path: PathBuf,
    stream: Stream,
    table: [u32; 256],
}

/// A file, the offset of the next write, and the bytes that are not written yet.
struct Stream {
    file: Arc<dyn File>,
    at: u64,
    buffer: Vec<u8>,
}

impl Writer {
    pub(super) fn new(folder: &Path, method: Method) -> io::Result<Self> {
        let name = match method {
            Method::Regular { flush, sync } => format!("{flush}-{}.log", sync.unwrap_or(0)),
            Method::Batched(size) => format!("batched-{size}.log"),
        };
        let file = PosixStorage::open(folder)?.create(&name)?;
        let stream = Stream { file, at: 0, buffer: Vec::with_capacity(BUFFER) };
        Ok(Self { method, path: folder.join(name), stream, table: table() })
    }

    /// Empties the file, as each run of `CWal` does at its start.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.stream.buffer.clear();
        self.stream.at = 0;
        self.stream.file.set_len(0)
    }

    /// Appends entry `number` of a run, counted from 0.
    pub(super) fn append(&mut self, number: u64, data: &[u8]) -> io::Result<()> {
        if let Method::Batched(size) = self.method
            && number.is_multiple_of(size)
        {
            // A seek flushes the buffer.
            self.stream.flush()?;
            self.stream.at = 0;
        }
        let checksum = data.iter().fold(u32::MAX, |checksum, byte| {
            let [low, ..] = (checksum ^ u32::from(*byte)).to_le_bytes();
            let entry = self.table.get(usize::from(low)).copied().unwrap_or_default();
            entry ^ (checksum >> 8)
        });
        let length = u64::try_from(data.len()).expect("fits in 64 bits");
        self.stream.write_all(&length.to_le_bytes())?;
        self.stream.write_all(data)?;
        self.stream.write_all(&(!checksum).to_le_bytes())?;
        if let Method::Regular { flush: true, .. } = self.method {
            self.stream.flush()?;
        }
        match self.method {
            Method::Regular { sync: Some(period), .. } if number.is_multiple_of(period) => {
                self.sync()
            }
            Method::Regular { .. } => Ok(()),
            Method::Batched(_) => self.sync(),
        }
    }

    /// Syncs the file without flushing the buffer first, as `CWal` does.
    fn sync(&self) -> io::Result<()> {
        RawFile::open(&self.path)?.sync_all()
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.at)?;
        self.at += u64::try_from(self.buffer.len()).expect("fits in 64 bits");
        self.buffer.clear();
        Ok(())
    }
}

/// The CRC table of the polynomial 0x04C11DB7, reflected.
fn table() -> [u32; 256] {
    let mut table = [0; 256];
    for (number, entry) in (0..).zip(&mut table) {
        *entry = (0..8).fold(number, |value: u32, _| {
            let rest = value >> 1;
            if value & 1 == 1 { rest ^ 0xEDB8_8320 } else { rest }
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_measure::scratch::Scratch;

    #[test]
    fn what_it_writes_is_a_log_of_cwal() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-cwal-method").unwrap();
        for method in [
            Method::Regular { flush: false, sync: Some(2) },
            Method::Regular { flush: true, sync: None },
        ] {
            let mut writer = Writer::new(scratch.path(), method).unwrap();
            writer.begin().unwrap();
            let mut expected = vec![];
            for number in 0..20 {
                let data = vec![u8::try_from(number).unwrap(); 1000];
                writer.append(number, &data).unwrap();
                seawall_foreign::cwal::write_binary(&data, &mut expected);
            }
            let in_file = writer.stream.at;
            let in_buffer = writer.stream.buffer.len();
            assert_eq!(in_buffer == 0, matches!(method, Method::Regular { flush: true, .. }));
            assert_eq!(in_file + u64::try_from(in_buffer).unwrap(), 20 * 1012);
            writer.stream.flush().unwrap();
            let mut found = vec![0; expected.len() + 1];
            assert_eq!(writer.stream.file.read_at(&mut found, 0).unwrap(), expected.len());
            assert!(found.starts_with(&expected));
        }
    }

    #[test]
    fn a_batch_begins_at_the_start_of_the_file() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-cwal-batch").unwrap();
        let mut writer = Writer::new(scratch.path(), Method::Batched(10)).unwrap();
        writer.begin().unwrap();
        for number in 0..100 {
            writer.append(number, &[1; 1000]).unwrap();
        }
        assert!(writer.stream.file.len().unwrap() <= 10 * 1012);
    }
}
