//! Bytes of Python objects, read in place.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Call `read` with the bytes of an object, or return None if it is no contiguous buffer of bytes.
pub fn with_bytes<T>(object: &Bound<'_, PyAny>, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Some(read(bytes.as_bytes()));
    }
    let buffer = PyBuffer::<u8>::get(object).ok()?;
    let bytes = buffer.as_slice_ptr()?;
    // SAFETY: these bytes can't be freed or resized while `buffer` exists. The interpreter's lock
    // is held, and what orbitmq does within `read` writes to no buffer that it received.
    Some(read(unsafe { bytes.as_ref() }))
}

/// Call `change` with the numbers of an array, or return None if it can't be changed.
pub fn with_numbers<T>(
    array: &Bound<'_, PyAny>,
    change: impl FnOnce(&mut [i32]) -> T,
) -> Option<T> {
    let buffer = PyBuffer::<i32>::get(array).ok()?;
    let mut numbers = buffer.as_slice_ptr().filter(|_| !buffer.readonly())?;
    // SAFETY: as above; and `change`, which calls no Python, has the only reference to them.
    Some(change(unsafe { numbers.as_mut() }))
}

/// Append a decimal number.
pub fn push_decimal(to: &mut Vec<u8>, number: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        to.push(b'-');
    }
    to.extend_from_slice(&digits[at..]);
}
