//! A minimal NBD client.

use super::*;

/// An NBD client that can write, flush and read.
pub(super) struct Client {
    pub(super) stream: UnixStream,
}

impl Client {
    pub(super) fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Self { stream };
        assert!(client.receive(18).starts_with(b"NBDMAGICIHAVEOPT"));
        // Fixed newstyle without zeros; then the export's name.
        client.send(&[&[0, 0, 0, 3], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 3], b"log"]);
        client.receive(10);
        client
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.request(1, (offset, bytes.len()), bytes);
        self.reply();
    }

    /// Writes and flushes; fails if the server has ended.
    pub(super) fn try_write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let mut reply = [0; 16];
        for (command, size, bytes) in [(1, bytes.len(), bytes), (3, 0, &[][..])] {
            let request = Self::message(command, (offset, size), bytes);
            self.stream.write_all(&request)?;
            self.stream.read_exact(&mut reply)?;
            assert_eq!(reply[4..8], [0; 4], "no error");
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) {
        self.request(3, (0, 0), &[]);
        self.reply();
    }

    pub(super) fn read(&mut self, offset: u64, size: usize) -> Vec<u8> {
        self.request(0, (offset, size), &[]);
        self.reply();
        self.receive(size)
    }

    pub(super) fn request(&mut self, command: u8, (offset, size): (u64, usize), bytes: &[u8]) {
        self.send(&[&Self::message(command, (offset, size), bytes)]);
    }

    fn message(command: u8, (offset, size): (u64, usize), bytes: &[u8]) -> Vec<u8> {
        let head = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, command, 0, 0, 0, 0, 0, 0, 0, 7];
        let offset = if command == 3 { 0 } else { offset };
        let size = u32::try_from(size).unwrap().swap_bytes().to_le_bytes();
        [&head[..], &offset.swap_bytes().to_le_bytes(), &size, bytes].concat()
    }

    pub(super) fn reply(&mut self) {
        let reply = self.receive(16);
        assert_eq!(reply, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    }

    pub(super) fn send(&mut self, parts: &[&[u8]]) {
        self.stream.write_all(&parts.concat()).unwrap();
    }

    pub(super) fn receive(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }
}
