//! Keys of records, and their entries in a file of the key index.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::bytes::with_numbers;
use crate::hashes::{hash_on, key_hash};

const TRANSACTION_STATE: i64 = 0b1100;
const ROLLED_BACK: i64 = 0b1100;
const ENTRY_SIZE: usize = 20;

/// Return the keys of the records that begin at or after a log offset: (hash, offset, time in ms).
#[pyfunction]
pub fn index_keys<'py>(
    py: Python<'py>,
    entries: &Bound<'py, PyAny>,
    indexed_to: i64,
    tag_keys: bool,
) -> PyResult<Bound<'py, PyList>> {
    let keys = PyList::empty(py);
    let mut topic: Option<Bound<'py, PyAny>> = None;
    let (mut key_prefix, mut tags_prefix) = (0, 0);
    for entry in entries.try_iter()? {
        let entry = entry?;
        let offset = entry.getattr(intern!(py, "commit_log_offset"))?;
        let sys_flag: i64 = entry.getattr(intern!(py, "sys_flag"))?.extract()?;
        if offset.extract::<i64>()? < indexed_to || sys_flag & TRANSACTION_STATE == ROLLED_BACK {
            continue;
        }
        let stored_ms = entry.getattr(intern!(py, "store_timestamp_ms"))?;
        let its_topic = entry.getattr(intern!(py, "topic"))?;
        if !topic.as_ref().is_some_and(|topic| topic.is(&its_topic)) {
            let name = its_topic.cast::<PyString>()?.to_str()?;
            key_prefix = hash_on(hash_on(0, name.as_bytes()), b"#");
            tags_prefix = hash_on(key_prefix, b"T#");
            topic = Some(its_topic);
        }
        let add = |prefix: u32, key: &[u8]| {
            keys.append((key_hash(hash_on(prefix, key)), &offset, &stored_ms))
        };
        let unique_key = entry.getattr(intern!(py, "unique_key"))?;
        if !unique_key.is_none() {
            add(key_prefix, unique_key.cast::<PyBytes>()?.as_bytes())?;
        }
        let words = entry.getattr(intern!(py, "keys"))?;
        let words = words.cast::<PyBytes>()?.as_bytes();
        for key in words.split(|&byte| byte == b' ').filter(|key| !key.is_empty()) {
            add(key_prefix, key)?;
        }
        let tags = entry.getattr(intern!(py, "tags"))?;
        if tag_keys && !tags.is_none() {
            let tags = tags.cast::<PyBytes>()?.as_bytes();
            if !tags.is_empty() {
                add(tags_prefix, tags)?;
            }
        }
    }
    Ok(keys)
}

/// Return the entries of keys as bytes, and how many slots had none before; change the slots.
#[pyfunction]
pub fn chain_entries<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyList>,
    slots: &Bound<'py, PyAny>,
    number: i32,
    begin_ms: i64,
) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    // All is read before a slot changes: no error leaves half of the entries behind.
    let mut rows: Vec<(u32, i64, i64)> = Vec::with_capacity(keys.len());
    for key in keys.iter() {
        rows.push(key.extract()?);
    }
    let last = i32::try_from(rows.len()).ok().and_then(|count| number.checked_add(count));
    if number < 0 || last.is_none() {
        return Err(PyOverflowError::new_err("entry numbers have 31 bits"));
    }
    let mut packed = Vec::with_capacity(rows.len() * ENTRY_SIZE);
    let change = |slots: &mut [i32]| chain(&mut packed, &rows, slots, number, begin_ms);
    let new_chains = with_numbers(slots, change)
        .flatten()
        .ok_or_else(|| PyValueError::new_err("slots must be an array of int, and not empty"))?;
    Ok((PyBytes::new(py, &packed), new_chains))
}

/// Append entries, and change the slots; return how many slots had none before.
fn chain(
    to: &mut Vec<u8>,
    rows: &[(u32, i64, i64)],
    slots: &mut [i32],
    mut number: i32,
    begin_ms: i64,
) -> Option<usize> {
    let mut new_chains = 0;
    for &(hash, offset, stored_ms) in rows {
        let slot = (hash as usize).checked_rem(slots.len())?;
        let mut previous = slots[slot];
        // A slot may point past the last entry: a crash prevented the write of the entries.
        if previous <= 0 || previous > number {
            previous = 0;
            new_chains += 1;
        }
        to.extend_from_slice(&hash.to_be_bytes());
        to.extend_from_slice(&offset.to_be_bytes());
        to.extend_from_slice(&seconds(begin_ms, stored_ms).to_be_bytes());
        to.extend_from_slice(&previous.to_be_bytes());
        slots[slot] = number;
        number += 1;
    }
    Some(new_chains)
}

/// Return the time of an entry: whole seconds since the file's first.
fn seconds(begin_ms: i64, stored_ms: i64) -> i32 {
    if begin_ms <= 0 {
        return 0;
    }
    let passed = stored_ms.saturating_sub(begin_ms).max(0) / 1000;
    i32::try_from(passed).unwrap_or(i32::MAX)
}
