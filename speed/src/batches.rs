//! The messages of a batch: from one body to records.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList, PyMemoryView, PySlice};

use crate::bytes::with_bytes;
use crate::hashes::hash_on;
use crate::records::new_record;
use crate::texts;

const HEAD_SIZE: usize = 20;
const LENGTH_SIZE: usize = 2;
const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

/// Return the records of a batch; none if a size in it is wrong, or Python has to read a property.
#[pyfunction]
pub fn batch_records<'py>(
    py: Python<'py>,
    message: &Bound<'py, PyAny>,
    _labels_of: &Bound<'py, PyAny>,
    _now_ms: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let body = message.getattr(intern!(py, "body"))?;
    let records = PyList::empty(py);
    let shared = Shared::of(message, &body)?;
    if shared.topic.extract::<&str>().is_ok_and(|topic| topic == SCHEDULE_TOPIC) {
        return Ok(records); // its queue entries have times
    }
    let is_usual = with_bytes(&body, |bytes| -> PyResult<bool> {
        let mut at = 0;
        while at < bytes.len() {
            let Some(one) = one_at(bytes, at).filter(|one| !texts::has_inner(one.text)) else {
                return Ok(false);
            };
            records.append(shared.record(&one, at)?)?;
            at += one.size;
        }
        Ok(true)
    });
    match is_usual {
        Some(Ok(true)) => Ok(records),
        Some(Err(error)) => Err(error),
        _ => Ok(PyList::empty(py)),
    }
}

/// One message of a batch.
struct One<'a> {
    size: usize,
    flag: i32,
    body_size: usize,
    text: &'a [u8],
}

/// Return the message that begins at a place; None unless its sizes agree.
fn one_at(batch: &[u8], at: usize) -> Option<One<'_>> {
    let left = batch.get(at..)?;
    let size = usize::try_from(int_at(left, 0)?).ok()?;
    let body_size = usize::try_from(int_at(left, 16)?).ok()?;
    let message = left.get(..size)?;
    let behind = message.get(HEAD_SIZE.checked_add(body_size)?..)?;
    let (length, text) = behind.split_at_checked(LENGTH_SIZE)?;
    let length = usize::try_from(i16::from_be_bytes(length.try_into().ok()?)).ok()?;
    (length == text.len()).then_some(One { size, flag: int_at(left, 12)?, body_size, text })
}

fn int_at(data: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// What all messages of a batch have from the message around them.
struct Shared<'py> {
    view: Bound<'py, PyMemoryView>,
    topic: Bound<'py, PyAny>,
    queue_id: Bound<'py, PyAny>,
    sys_flag: Bound<'py, PyAny>,
    born_timestamp_ms: Bound<'py, PyAny>,
    born_host: Bound<'py, PyAny>,
    store_host: Bound<'py, PyAny>,
    reconsume_times: Bound<'py, PyAny>,
}

impl<'py> Shared<'py> {
    fn of(message: &Bound<'py, PyAny>, body: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = message.py();
        Ok(Shared {
            view: PyMemoryView::from(body)?,
            topic: message.getattr(intern!(py, "topic"))?,
            queue_id: message.getattr(intern!(py, "queue_id"))?,
            sys_flag: message.getattr(intern!(py, "sys_flag"))?,
            born_timestamp_ms: message.getattr(intern!(py, "born_timestamp_ms"))?,
            born_host: message.getattr(intern!(py, "born_host"))?,
            store_host: message.getattr(intern!(py, "store_host"))?,
            reconsume_times: message.getattr(intern!(py, "reconsume_times"))?,
        })
    }

    fn record(&self, one: &One<'_>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.view.py();
        let labels = texts::labels(one.text);
        let int = |number: i32| -> PyResult<Bound<'py, PyAny>> {
            Ok(number.into_pyobject(py)?.into_any())
        };
        let bytes_or_none = |text: &[u8]| match text {
            [] => py.None().into_bound(py),
            _ => PyBytes::new(py, text).into_any(),
        };
        let body_at = (at + HEAD_SIZE) as isize;
        let body = PySlice::new(py, body_at, body_at + one.body_size as isize, 1);
        let zero = int(0)?;
        let fields = [
            self.topic.clone(),
            self.queue_id.clone(),
            zero.clone(), // the place comes later
            zero.clone(),
            zero.clone(),
            zero.clone(),
            self.sys_flag.clone(),
            int(hash_on(0, labels.tags) as i32)?,
            bytes_or_none(labels.unique_key),
            PyBytes::new(py, labels.keys).into_any(),
            bytes_or_none(labels.tags),
            int(1)?,
            self.view.get_item(body)?,
            PyBytes::new(py, one.text).into_any(),
            int(one.flag)?,
            self.born_timestamp_ms.clone(),
            self.born_host.clone(),
            self.store_host.clone(),
            self.reconsume_times.clone(),
            zero,
            PyBool::new(py, false).to_owned().into_any(),
        ];
        new_record(py, fields)
    }
}
