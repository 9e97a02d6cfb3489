//! Reading a log that another process may have open for append.

use crate::error::Error;
use crate::guard;
use crate::log::lsn;
use crate::options::{self, Options};
use crate::pointer::{Freed, Handle, In, InMut, Out, give};
use crate::read::{Buffer, Cursor, Follower, cursor_into_c, follower_into_c, found_into};
use crate::status::Status;
use seawall::{LogReader, Raw};
use std::ffi::c_char;

/// A log that is open for reading. It takes no lock and changes no file. Threads may share it.
#[derive(Debug)]
pub struct Reader {
    reader: LogReader<[u8], Raw>,
}

impl Handle for Reader {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b08;
}

/// Opens the log in the directory `path` for reading, also while a writer has it open.
///
/// `options` may be null. If it sets codec, type name or schema, a log with others is refused.
/// `*reader` is the handle, or null after an error. Release it with seawall_reader_free.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_reader_open(
    path: In<c_char>,
    options: In<Options>,
    reader: Out<*mut Reader>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        reader.required("reader")?;
        reader.put(std::ptr::null_mut());
        let (settings, path) = (options::settings(&options)?, path.path("path")?);
        let opened = if settings.is_typed {
            settings.log.open_reader(path)?
        } else {
            settings.log.open_any_reader(path)?
        };
        let opened = opened.skip_damaged(settings.skip_damaged);
        reader.put(give(Reader { reader: opened }));
        Ok(Status::Ok)
    })
}

/// Gets the first record of the log, or the next one if the log is empty. Reading begins there.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_reader_oldest(
    reader: In<Reader>,
    oldest: Out<u64>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        oldest.put(reader.handle("reader")?.reader.oldest()?.get());
        Ok(Status::Ok)
    })
}

/// Gets where replay starts: the newest checkpoint, or the oldest record without one, also if the
/// manifest is damaged.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_reader_replay_start(
    reader: In<Reader>,
    from: Out<u64>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        from.put(reader.handle("reader")?.reader.replay_start()?.get());
        Ok(Status::Ok)
    })
}

/// Copies the record `lsn` to `buffer`. SEAWALL_STATUS_NONE after the last record that a reader may
/// see.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_reader_get(
    reader: In<Reader>,
    lsn: u64,
    buffer: InMut<Buffer>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        let reader = &reader.handle("reader")?.reader;
        found_into(&buffer, || Ok(reader.get(self::lsn(lsn)?)?))
    })
}

/// Reads the records from `from` on. Free the cursor with seawall_cursor_free.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_reader_read(
    reader: In<Reader>,
    from: u64,
    cursor: Out<*mut Cursor>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        cursor.required("cursor")?;
        cursor.put(std::ptr::null_mut());
        cursor_into_c(reader.handle("reader")?.reader.cursor(lsn(from)?)?, &cursor);
        Ok(Status::Ok)
    })
}

/// Follows the log: the records from `from` on, then new ones as they become durable. Free the
/// follower with seawall_follower_free.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_reader_follow(
    reader: In<Reader>,
    from: u64,
    follower: Out<*mut Follower>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        follower.required("follower")?;
        follower.put(std::ptr::null_mut());
        follower_into_c(reader.handle("reader")?.reader.follow(lsn(from)?)?, None, &follower);
        Ok(Status::Ok)
    })
}

/// Releases the handle; null is allowed. Cursors and followers of it stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_reader_free(reader: Freed<Reader>) {
    guard::bare(|| reader.take().map(drop));
}
