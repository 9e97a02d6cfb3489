//! Pointers that C passes: this file alone dereferences them, after checks.
//!
//! A value of these types comes from C, or from an `unsafe` constructor. What a check can see is
//! an error: null, misaligned, a length that no memory has, another kind of handle. The rest is the
//! contract of the header: a pointer leads to memory that stays valid during the call.

use crate::fault::Fault;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A type whose values C holds as handles.
pub trait Handle {
    /// The number that identifies the type.
    const KIND: u64;
}

/// A `#[repr(C)]` object that begins with a `T`, the part that C can read.
pub trait Shows<T> {
    /// The number that identifies the type.
    const KIND: u64;

    /// Returns the kind that the object stores.
    fn kind(&self) -> &Kind;
}

/// The number of an object's type; 0 after the object was freed.
#[repr(transparent)]
#[derive(Debug)]
pub struct Kind(AtomicU64);

impl Kind {
    pub(crate) fn new(number: u64) -> Self {
        Self(AtomicU64::new(number))
    }

    /// Fails if the object has another kind or was freed.
    fn check(&self, expected: u64, what: &str) -> Result<(), Fault> {
        if self.0.load(Ordering::Relaxed) == expected {
            Ok(())
        } else {
            Err(Fault::argument(format!("{what} is not a live handle of this kind")))
        }
    }

    /// Marks the object as freed, or as one that C must not free. A call that frees a freed object
    /// will probably see the mark.
    pub(crate) fn retire(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// What a C pointer to a `T` points to. The kind comes first, so that it can be read before the
/// type is known.
#[repr(C)]
struct Object<T> {
    kind: Kind,
    value: T,
}

/// Gives a handle to C.
pub(crate) fn give<T: Handle>(value: T) -> *mut T {
    Box::into_raw(Box::new(Object { kind: Kind::new(T::KIND), value })).cast()
}

/// A pointer to something that is read, or to a handle.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

/// A pointer to a handle that only one thread may use at a time.
#[repr(transparent)]
#[derive(Debug)]
pub struct InMut<T>(*mut T);

/// A pointer to a place for a result; null if the caller does not want it.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

/// A pointer to a handle that the caller returns; may be null.
#[repr(transparent)]
#[derive(Debug)]
pub struct Freed<T>(*mut T);

/// Bytes that C lends during a call.
#[repr(C)]
#[derive(Debug)]
pub struct Slice {
    /// The first byte; may be null if `size` is 0.
    data: *const c_void,
    /// How many.
    size: usize,
}

/// A value with pointers to data that the same object owns. Neither value nor data ever changes.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Shared<T>(pub(crate) T);

// SAFETY: the data belongs to the same object and moves to another thread together with it.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: neither the value nor the data ever changes.
unsafe impl<T> Sync for Shared<T> {}

/// Refuses a pointer that cannot lead to a `T`.
fn check<T>(pointer: *const T, what: &str) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::argument(format!("{what} is null")));
    }
    if !pointer.is_aligned() {
        return Err(Fault::argument(format!("{what} is misaligned")));
    }
    Ok(())
}

/// Refuses memory that cannot exist.
fn check_extent<T>(pointer: *const T, count: usize, what: &str) -> Result<(), Fault> {
    check(pointer, what)?;
    let size = count.checked_mul(size_of::<T>()).filter(|size| isize::try_from(*size).is_ok());
    if size.and_then(|size| pointer.addr().checked_add(size)).is_none() {
        return Err(Fault::argument(format!("{what}: a length of {count} is impossible")));
    }
    Ok(())
}

/// Returns the object at `pointer`.
fn object<'a, T: Handle>(pointer: *const T, what: &str) -> Result<&'a Object<T>, Fault> {
    let pointer = pointer.cast::<Object<T>>();
    check(pointer, what)?;
    // SAFETY: the pointer is aligned and not null, and by the contract of the header leads to a
    // live handle, which begins with its kind.
    let kind = unsafe { &*pointer.cast::<Kind>() };
    kind.check(T::KIND, what)?;
    // SAFETY: `give` made an object of this kind. It is changed through locks only.
    Ok(unsafe { &*pointer })
}

/// Returns the handle at `pointer`.
fn handle<'a, T: Handle>(pointer: *const T, what: &str) -> Result<&'a T, Fault> {
    Ok(&object(pointer, what)?.value)
}

impl<T: Handle> In<T> {
    /// Returns the handle.
    pub(crate) fn handle(&self, what: &str) -> Result<&T, Fault> {
        handle(self.0, what)
    }

    /// Returns the handle; `None` for null.
    pub(crate) fn optional(&self, what: &str) -> Result<Option<&T>, Fault> {
        if self.0.is_null() { Ok(None) } else { handle(self.0, what).map(Some) }
    }
}

impl<T: Handle> InMut<T> {
    /// Returns the handle.
    pub(crate) fn handle(&self, what: &str) -> Result<&T, Fault> {
        handle(self.0, what)
    }
}

impl In<c_void> {
    /// The bytes that begin here.
    pub(crate) fn bytes(&self, size: usize) -> Result<&[u8], Fault> {
        Slice { data: self.0, size }.lend()
    }
}

impl In<c_char> {
    /// The text that begins here and ends with a zero.
    pub(crate) fn text(&self, what: &str) -> Result<&CStr, Fault> {
        check(self.0, what)?;
        // SAFETY: the pointer is not null, and by the contract of the header a text ends with a
        // zero and does not change during the call.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// The path that begins here and ends with a zero.
    pub(crate) fn path(&self, what: &str) -> Result<&Path, Fault> {
        Ok(Path::new(OsStr::from_bytes(self.text(what)?.to_bytes())))
    }

    /// The path; `None` for null.
    pub(crate) fn optional_path(&self, what: &str) -> Result<Option<&Path>, Fault> {
        if self.0.is_null() { Ok(None) } else { self.path(what).map(Some) }
    }
}

impl In<Slice> {
    /// The slices that begin here.
    pub(crate) fn slices(&self, count: usize) -> Result<&[Slice], Fault> {
        if count == 0 {
            return Ok(&[]);
        }
        check_extent(self.0, count, "records")?;
        // SAFETY: the pointer is aligned and not null, the extent is possible, and by the contract
        // of the header that memory holds slices.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

impl Slice {
    /// The bytes, for a call.
    fn lend<'a>(&self) -> Result<&'a [u8], Fault> {
        if self.size == 0 {
            return Ok(&[]);
        }
        let data = self.data.cast::<u8>();
        check_extent(data, self.size, "data")?;
        // SAFETY: the pointer is not null, the extent is possible, and by the contract of the
        // header that memory is initialised and does not change during the call.
        Ok(unsafe { std::slice::from_raw_parts(data, self.size) })
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> Result<&[u8], Fault> {
        self.lend()
    }
}

impl<T> Out<T> {
    /// A place in Rust memory, for tests.
    pub fn to(place: &mut T) -> Self {
        Self(place)
    }

    /// No place.
    #[must_use]
    pub fn none() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Refuses null, for a result that the caller must take.
    pub(crate) fn required(&self, what: &str) -> Result<(), Fault> {
        check(self.0, what)
    }

    /// Writes the result, if the caller wants it. A misaligned place gets nothing.
    pub(crate) fn put(&self, value: T) {
        if !self.0.is_null() && self.0.is_aligned() {
            // SAFETY: the pointer is aligned and not null, and by the contract of the header leads
            // to memory for the result.
            unsafe { self.0.write(value) };
        }
    }

    /// Whether the caller wants the result.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null() && self.0.is_aligned()
    }
}

impl<T: Handle> Freed<T> {
    /// Takes the handle back; `None` for null.
    pub(crate) fn take(self) -> Result<Option<T>, Fault> {
        if self.0.is_null() {
            return Ok(None);
        }
        object(self.0, "the handle")?.kind.retire();
        // SAFETY: the object has the right kind, so `give` made it and nothing has freed it.
        let object = unsafe { Box::from_raw(self.0.cast::<Object<T>>()) };
        Ok(Some(object.value))
    }
}

impl<T> Freed<T> {
    /// Takes back the whole object that begins with this `T`; `None` for null.
    pub(crate) fn take_whole<Whole: Shows<T>>(self) -> Result<Option<Box<Whole>>, Fault> {
        if self.0.is_null() {
            return Ok(None);
        }
        let pointer = self.0.cast::<Whole>();
        check(pointer, "the object")?;
        // SAFETY: the pointer is aligned and not null, and by the contract of the header leads to
        // an object of the library.
        let kind = unsafe { &*pointer }.kind();
        kind.check(Whole::KIND, "the object")?;
        kind.retire();
        // SAFETY: the object has the right kind, so `Box::into_raw` made it and nothing has freed
        // it.
        Ok(Some(unsafe { Box::from_raw(pointer) }))
    }
}

/// Returns a new descriptor for the file of `descriptor`.
pub(crate) fn duplicate(descriptor: c_int) -> Result<OwnedFd, Fault> {
    if descriptor < 0 {
        return Err(Fault::argument(format!("{descriptor} is not a file descriptor")));
    }
    // SAFETY: the descriptor is not -1. If it is not open, the system call fails.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let copy = rustix::io::fcntl_dupfd_cloexec(borrowed, 0);
    copy.map_err(|error| Fault::argument(format!("file descriptor {descriptor}: {error}")))
}

#[cfg(test)]
mod tests {
    //! These tests use no files, so that `cargo xtask long miri` can interpret them.

    use super::*;
    use crate::error::{Error, ErrorObject};
    use crate::options::Options;
    use crate::read::Buffer;
    use crate::status::Status;
    use crate::{guard, options, read, seawall_error_free};

    fn refusal<T>(result: Result<T, Fault>) -> String {
        match result {
            Err(Fault::Argument(why)) => why,
            _ => "not refused".to_owned(),
        }
    }

    /// A handle as a C caller holds it.
    fn options() -> *mut Options {
        options::seawall_options_new()
    }

    #[test]
    fn handle_lives_until_it_is_freed() {
        let handle = options();
        In(handle.cast_const()).handle("options").unwrap();
        assert!(In(handle.cast_const()).optional("options").is_ok_and(|found| found.is_some()));
        assert_eq!(options::seawall_options_set_schema(InMut(handle), 3), Status::Ok);
        assert_eq!(options::seawall_options_set_level(InMut(handle), 9), Status::Usage);
        options::seawall_options_free(Freed(handle));
        let buffer = read::seawall_buffer_new();
        assert_eq!(read::seawall_buffer_size(In(buffer)), 0);
        assert!(!read::seawall_buffer_data(In(buffer)).is_null());
        read::seawall_buffer_free(Freed(buffer));
    }

    #[test]
    fn other_handles_null_and_misaligned_ones_are_refused() {
        let handle = options();
        let other = In(handle.cast_const().cast::<Buffer>());
        assert_eq!(refusal(other.handle("buffer")), "buffer is not a live handle of this kind");
        assert!(Freed(handle.cast::<Buffer>()).take().is_err(), "and is not freed");
        let null = In(std::ptr::null::<Options>());
        assert_eq!(refusal(null.handle("options")), "options is null");
        assert!(null.optional("options").is_ok_and(|found| found.is_none()));
        let misaligned = In(handle.cast_const().wrapping_byte_add(1));
        assert_eq!(refusal(misaligned.handle("options")), "options is misaligned");
        assert!(Freed(std::ptr::null_mut::<Options>()).take().is_ok_and(|taken| taken.is_none()));
        assert!(Freed(handle).take().is_ok_and(|taken| taken.is_some()));
    }

    #[test]
    fn memory_of_c_is_read_where_it_is() {
        let record = *b"a record";
        let slices = [
            Slice { data: record.as_ptr().cast(), size: record.len() },
            Slice { data: std::ptr::null(), size: 0 },
        ];
        let lent = In(slices.as_ptr());
        let found = lent.slices(2).unwrap();
        let found: Vec<&[u8]> = found.iter().map(|slice| slice.bytes().unwrap()).collect();
        assert_eq!(found, [&record[..], b""]);
        assert!(In(std::ptr::null::<Slice>()).slices(0).is_ok_and(<[_]>::is_empty));
        assert_eq!(refusal(In(std::ptr::null::<Slice>()).slices(1)), "records is null");
        assert!(refusal(lent.slices(usize::MAX / 2)).ends_with("is impossible"));
        let path = In(c"a/path".as_ptr());
        assert_eq!(path.path("path").unwrap(), Path::new("a/path"));
        assert!(In(std::ptr::null()).optional_path("path").is_ok_and(|path| path.is_none()));
    }

    #[test]
    fn places_get_results_where_they_can_hold_them() {
        let mut places = [0_u64; 2];
        Out::to(&mut places[0]).put(7);
        Out((&raw mut places[0]).wrapping_byte_add(1)).put(u64::MAX);
        Out::none().put(9_u64);
        assert_eq!(places, [7, 0]);
    }

    #[test]
    fn error_object_lives_until_it_is_freed() {
        let mut place = std::ptr::null_mut();
        let fault = || Err(Fault::argument("nonsense"));
        assert_eq!(guard::status(Out::to(&mut place), fault), Status::Usage);
        // SAFETY: the place got an error, which is freed below.
        let message = In(unsafe { &*place }.message);
        let text = message.text("message").unwrap().to_bytes();
        assert_eq!(text, b"invalid argument: nonsense");
        seawall_error_free(Freed(place));
        let none = Freed(std::ptr::null_mut::<Error>()).take_whole::<ErrorObject>().unwrap();
        assert!(none.is_none());
    }

    #[test]
    fn error_that_a_callback_borrows_is_not_freed_by_it() {
        let object = ErrorObject::new(Fault::argument("nonsense"));
        let lent = object.lend().cast_mut();
        // Forgotten, so that a failure of this test frees nothing twice.
        assert!(Freed(lent).take_whole::<ErrorObject>().map(std::mem::forget).is_err());
        seawall_error_free(Freed(lent));
        // SAFETY: `object` is alive.
        let message = In(unsafe { &*lent }.message);
        assert_eq!(message.text("message").unwrap().to_bytes(), b"invalid argument: nonsense");
    }
}
