//! Java's `String.hashCode`, over texts in UTF-8.

/// Continue a hash with a text; bytes that are not UTF-8 are read as U+FFFD.
pub fn hash_on(bits: u32, text: &[u8]) -> u32 {
    let step = |bits: u32, unit: u16| bits.wrapping_mul(31).wrapping_add(u32::from(unit));
    if text.is_ascii() {
        return text.iter().fold(bits, |bits, &byte| step(bits, u16::from(byte)));
    }
    String::from_utf8_lossy(text).encode_utf16().fold(bits, step)
}

/// Return the hash in an index entry: the absolute value, 0 for the least integer.
pub fn key_hash(bits: u32) -> u32 {
    if bits > i32::MAX as u32 {
        bits.wrapping_neg() & i32::MAX as u32
    } else {
        bits
    }
}
