//! Complete transfers from system calls that may be interrupted or short.

use std::io;

/// Calls `read` until `buffer` is full or a read returns nothing; returns the bytes read.
pub(crate) fn read_fully(
    buffer: &mut [u8],
    offset: u64,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let asked = rest.len();
        match read(rest, advance(offset, done)?) {
            Ok(0) => break,
            Ok(count) => {
                assert!(count <= asked, "a read returns no more than was asked for");
                done += count;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Calls `write` until all of `bytes` are written.
pub(crate) fn write_fully(
    bytes: &[u8],
    offset: u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match write(rest, advance(offset, done)?) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                assert!(count <= rest.len(), "a write takes no more than it was given");
                done += count;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Adds `done` bytes to `offset`.
pub(crate) fn advance(offset: u64, done: usize) -> io::Result<u64> {
    u64::try_from(done)
        .ok()
        .and_then(|done| offset.checked_add(done))
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of a simulated device: at most this many bytes, or an error.
    type Answers = std::vec::IntoIter<io::Result<usize>>;

    fn answers(of: [io::Result<usize>; 4]) -> Answers {
        Vec::from(of).into_iter()
    }

    fn interrupted() -> io::Result<usize> {
        Err(io::ErrorKind::Interrupted.into())
    }

    fn read_through(mut device: Answers) -> (io::Result<usize>, [u8; 6]) {
        let file = *b"..abcdef";
        let mut buffer = [0; 6];
        let result = read_fully(&mut buffer, 2, |rest, at| {
            let count = device.next().unwrap_or(Ok(0))?.min(rest.len());
            let at = usize::try_from(at).unwrap();
            rest[..count].copy_from_slice(&file[at..at + count]);
            Ok(count)
        });
        (result, buffer)
    }

    fn write_through(mut device: Answers) -> (io::Result<()>, Vec<u8>) {
        let mut file = b"..".to_vec();
        let result = write_fully(b"abcdef", 2, |rest, at| {
            assert_eq!(usize::try_from(at).unwrap(), file.len());
            let count = device.next().unwrap_or(Ok(0))?.min(rest.len());
            file.extend_from_slice(&rest[..count]);
            Ok(count)
        });
        (result, file)
    }

    #[test]
    fn interrupted_and_short_reads_are_repeated() {
        let (result, buffer) = read_through(answers([interrupted(), Ok(1), interrupted(), Ok(9)]));
        assert_eq!((result.unwrap(), &buffer), (6, b"abcdef"));
    }

    #[test]
    fn read_ends_at_the_end_of_the_file() {
        let (result, buffer) = read_through(answers([Ok(2), Ok(1), Ok(0), Ok(3)]));
        assert_eq!((result.unwrap(), &buffer), (3, b"abc\0\0\0"));
    }

    #[test]
    fn interrupted_and_short_writes_are_repeated() {
        let (result, file) = write_through(answers([interrupted(), Ok(1), interrupted(), Ok(9)]));
        result.unwrap();
        assert_eq!(file, b"..abcdef");
    }

    #[test]
    fn write_of_zero_bytes_is_an_error() {
        let (result, _) = write_through(answers([Ok(3), Ok(0), Ok(3), Ok(3)]));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn other_errors_end_a_transfer() {
        let full = || Err(io::ErrorKind::StorageFull.into());
        let (result, _) = write_through(answers([Ok(1), full(), Ok(3), Ok(3)]));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        let (result, _) = read_through(answers([Ok(1), full(), Ok(3), Ok(3)]));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn offset_overflow_is_refused() {
        let result = write_fully(b"ab", u64::MAX, |_, _| Ok(1));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
