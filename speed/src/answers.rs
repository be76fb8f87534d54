//! Answers to stored sends.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::bytes::push_decimal;

const LEAD_SIZE: usize = 8;
const HOLES: [&[u8]; 5] = [b"%d", b"%016X", b"%d", b"%d", b"%b"];

/// Return the frames of answers, made from a form that has room for five values.
#[pyfunction]
pub fn answer_frames<'py>(
    py: Python<'py>,
    form: &[u8],
    opaques: &Bound<'py, PyAny>,
    stored: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let texts = texts_between(form)
        .ok_or_else(|| PyValueError::new_err("the form is not that of an answer to a send"))?;
    let frames = PyList::empty(py);
    let mut frame = Vec::with_capacity(2 * form.len());
    for (opaque, one) in opaques.try_iter()?.zip(stored.try_iter()?) {
        let (opaque, one): (i64, _) = (opaque?.extract()?, one?);
        let offset: i64 = one.getattr(intern!(py, "commit_log_offset"))?.extract()?;
        let queue_id: i64 = one.getattr(intern!(py, "queue_id"))?.extract()?;
        let queue_offset: i64 = one.getattr(intern!(py, "queue_offset"))?.extract()?;
        let unique_key = one.getattr(intern!(py, "unique_key"))?;
        frame.clear();
        frame.extend_from_slice(&[0; LEAD_SIZE]);
        frame.extend_from_slice(&texts[0]);
        push_decimal(&mut frame, opaque);
        frame.extend_from_slice(&texts[1]);
        push_hex(&mut frame, offset);
        frame.extend_from_slice(&texts[2]);
        push_decimal(&mut frame, queue_id);
        frame.extend_from_slice(&texts[3]);
        push_decimal(&mut frame, queue_offset);
        frame.extend_from_slice(&texts[4]);
        frame.extend_from_slice(unique_key.cast::<PyBytes>()?.as_bytes());
        frame.extend_from_slice(&texts[5]);
        let size = (frame.len() - LEAD_SIZE) as u32;
        frame[..4].copy_from_slice(&(size + 4).to_be_bytes());
        frame[4..LEAD_SIZE].copy_from_slice(&size.to_be_bytes());
        frames.append(PyBytes::new(py, &frame))?;
    }
    Ok(frames)
}

/// Return what stands before, between and behind the holes of a form, with `%%` as `%`.
fn texts_between(form: &[u8]) -> Option<[Vec<u8>; HOLES.len() + 1]> {
    let mut texts: [Vec<u8>; HOLES.len() + 1] = Default::default();
    let (mut hole, mut left) = (0, form);
    while let Some((&byte, rest)) = left.split_first() {
        if byte != b'%' {
            texts[hole].push(byte);
            left = rest;
        } else if rest.first() == Some(&b'%') {
            texts[hole].push(b'%');
            left = &rest[1..];
        } else {
            left = left.strip_prefix(*HOLES.get(hole)?)?;
            hole += 1;
        }
    }
    (hole == HOLES.len()).then_some(texts)
}

/// Append a number as Python's `%016X` does.
fn push_hex(to: &mut Vec<u8>, number: i64) {
    if number < 0 {
        to.extend_from_slice(format!("-{:015X}", number.unsigned_abs()).as_bytes());
        return;
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    to.extend((0..16).rev().map(|digit| DIGITS[(number >> (4 * digit)) as usize & 15]));
}
