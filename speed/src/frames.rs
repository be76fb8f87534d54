//! Plain sends of a read: from frames to records.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySlice, PyString};

use crate::bytes::with_bytes;
use crate::{header, records, texts};

const LEAD_SIZE: usize = 8;
const HEADER_MAX: usize = 16 * 1024;

/// Add the records of leading plain sends to `cut`; return where the first other frame begins.
#[pyfunction]
pub fn cut_sends<'py>(
    data: &Bound<'py, PyAny>,
    at: usize,
    cut: &Bound<'py, PyAny>,
    topic_of: &Bound<'py, PyAny>,
    meanings: &Bound<'py, PyAny>,
) -> PyResult<usize> {
    let mut sends = Sends::new(data, cut, topic_of, meanings)?;
    with_bytes(data, |bytes| sends.take(bytes, at)).unwrap_or(Ok(at))
}

struct Sends<'a, 'py> {
    view: Bound<'py, PyMemoryView>,
    topic_of: &'a Bound<'py, PyAny>,
    meanings: &'a Bound<'py, PyAny>,
    suffix: Bound<'py, PyBytes>,
    born_host: Bound<'py, PyAny>,
    store_host: Bound<'py, PyAny>,
    plain_flags: i32,
    bytes_max: i64,
    most: usize,
    opaques: Bound<'py, PyList>,
    records: Bound<'py, PyList>,
    topic: Option<Topic<'py>>,
    meaning: Option<Meaning<'py>>,
}

/// A topic whose sends may be plain.
struct Topic<'py> {
    name: Bound<'py, PyString>,
    queues: i32,
    more_flags: i32,
}

/// What a text says besides its unique key and its keys.
struct Meaning<'py> {
    rest: Vec<u8>,
    tags_code: Bound<'py, PyAny>,
    tags: Bound<'py, PyAny>,
}

impl<'a, 'py> Sends<'a, 'py> {
    fn new(
        data: &Bound<'py, PyAny>,
        cut: &Bound<'py, PyAny>,
        topic_of: &'a Bound<'py, PyAny>,
        meanings: &'a Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let py = cut.py();
        Ok(Sends {
            view: PyMemoryView::from(data)?,
            topic_of,
            meanings,
            suffix: cut.getattr(intern!(py, "suffix"))?.cast_into()?,
            born_host: cut.getattr(intern!(py, "born_host"))?,
            store_host: cut.getattr(intern!(py, "store_host"))?,
            plain_flags: cut.getattr(intern!(py, "plain_flags"))?.extract()?,
            bytes_max: cut.getattr(intern!(py, "bytes_max"))?.extract()?,
            most: cut.getattr(intern!(py, "most"))?.extract::<isize>()?.max(0) as usize,
            opaques: cut.getattr(intern!(py, "opaques"))?.cast_into()?,
            records: cut.getattr(intern!(py, "records"))?.cast_into()?,
            topic: None,
            meaning: None,
        })
    }

    fn take(&mut self, data: &[u8], mut at: usize) -> PyResult<usize> {
        while self.records.len() < self.most {
            let Some(frame) = frame_at(data, at) else { break };
            let Some(send) = header::read(frame.header) else { break };
            let Some(parts) = texts::read(send.text) else { break };
            let is_plain = send.sys_flag & !self.plain_flags == 0;
            if !is_plain || !self.find_topic(send.topic)? || !self.find_meaning(&parts.rest)? {
                break;
            }
            let stored = frame.body.len() + parts.text.len() + self.suffix.as_bytes().len();
            if i64::try_from(stored).unwrap_or(i64::MAX) > self.bytes_max {
                break;
            }
            let Some(record) = self.record(&send, &parts, at, &frame)? else { break };
            self.opaques.append(send.opaque)?;
            self.records.append(record)?;
            at += frame.size;
        }
        Ok(at)
    }

    /// Return whether sends to a topic may be plain, and remember the topic.
    fn find_topic(&mut self, name: &[u8]) -> PyResult<bool> {
        if let Some(topic) = &self.topic {
            if topic.name.to_str()?.as_bytes() == name {
                return Ok(true);
            }
        }
        let Ok(name) = std::str::from_utf8(name) else { return Ok(false) };
        let found: Option<(Bound<'py, PyString>, i32, i32)> =
            self.topic_of.call1((name,))?.extract()?;
        self.topic = found.map(|(name, queues, more_flags)| Topic { name, queues, more_flags });
        Ok(self.topic.is_some())
    }

    /// Return whether a text needs no care, and remember what it means.
    fn find_meaning(&mut self, rest: &[u8]) -> PyResult<bool> {
        if self.meaning.as_ref().is_some_and(|meaning| meaning.rest == rest) {
            return Ok(true);
        }
        let py = self.view.py();
        let rest_bytes = PyBytes::new(py, rest);
        let found = self.meanings.call_method1(intern!(py, "of_rest"), (rest_bytes,))?;
        if found.is_none() {
            return Ok(false);
        }
        let (tags_code, tags) = found.extract()?;
        self.meaning = Some(Meaning { rest: rest.to_vec(), tags_code, tags });
        Ok(true)
    }

    fn record(
        &self,
        send: &header::Send<'_>,
        parts: &texts::Parts,
        at: usize,
        frame: &Frame<'_>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (Some(topic), Some(meaning)) = (&self.topic, &self.meaning) else {
            return Ok(None);
        };
        if send.queue_id < 0 || send.queue_id >= topic.queues {
            return Ok(None);
        }
        let py = self.view.py();
        let suffix = self.suffix.as_bytes();
        let text = PyBytes::new_with(py, parts.text.len() + suffix.len(), |to| {
            to[..parts.text.len()].copy_from_slice(&parts.text);
            to[parts.text.len()..].copy_from_slice(suffix);
            Ok(())
        })?;
        let (key_begin, key_end) = parts.unique_key;
        let end = at + frame.size;
        let body = PySlice::new(py, (end - frame.body.len()) as isize, end as isize, 1);
        let int = |number: i32| -> PyResult<Bound<'py, PyAny>> {
            Ok(number.into_pyobject(py)?.into_any())
        };
        let zero = int(0)?;
        let values = [
            topic.name.clone().into_any(),
            int(send.queue_id)?,
            zero.clone(), // the log fills in the place
            zero.clone(),
            zero.clone(),
            zero,
            int(send.sys_flag | topic.more_flags)?,
            meaning.tags_code.clone(),
            PyBytes::new(py, &parts.text[key_begin..key_end]).into_any(),
            PyBytes::new(py, &parts.keys).into_any(),
            meaning.tags.clone(),
            int(1)?,
            self.view.get_item(body)?,
            text.into_any(),
            int(send.flag)?,
            send.born_ms.into_pyobject(py)?.into_any(),
            self.born_host.clone(),
            self.store_host.clone(),
            int(send.reconsume_times)?,
        ];
        records::new_record(py, values).map(Some)
    }
}

struct Frame<'a> {
    size: usize,
    header: &'a [u8],
    body: &'a [u8],
}

/// Return the frame that begins at a place; None unless it is whole, and its sizes are possible.
fn frame_at(data: &[u8], at: usize) -> Option<Frame<'_>> {
    let data = data.get(at..)?;
    let (lead, rest) = data.split_at_checked(LEAD_SIZE)?;
    let total = u32::from_be_bytes(lead[..4].try_into().ok()?) as usize;
    let header_size = u32::from_be_bytes(lead[4..].try_into().ok()?) as usize;
    let content = rest.get(..total.checked_sub(4)?)?;
    if header_size > HEADER_MAX {
        return None;
    }
    let (header, body) = content.split_at_checked(header_size)?;
    Some(Frame { size: 4 + total, header, body })
}
