//! Records of the commit log: their places and their bytes.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple, PyType};

use crate::bytes::with_bytes;

const IPV6_FLAGS: i32 = 0b11_0000;
const WITHOUT_QUEUE: i32 = 0b0100;
const HEAD_SIZE_MAX: usize = 112;
const COPIED_BODY_MAX: usize = 16 * 1024;
const PROPERTIES_MAX: usize = i16::MAX as usize;

/// Return a `NewRecord` with these fields, in the order of the class.
pub fn new_record<'py, const FIELDS: usize>(
    py: Python<'py>,
    fields: [Bound<'py, PyAny>; FIELDS],
) -> PyResult<Bound<'py, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let record_type = TYPE.import(py, "orbitmq.store.log.append", "NewRecord")?;
    record_type.call1(PyTuple::new(py, fields)?)
}

/// Give leading records their places as long as they fit into `room` bytes.
///
/// Return how many records have a place, where the last ends, and the buffers to write. Bodies of
/// 16 KiB or less are copied, so that small records are one buffer.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn place_records<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyAny>,
    start: usize,
    form_of: &Bound<'py, PyAny>,
    queue_offsets: &Bound<'py, PyDict>,
    next_queue_offset: &Bound<'py, PyAny>,
    position: i64,
    room: i64,
    now_ms: i64,
) -> PyResult<(usize, i64, Bound<'py, PyList>)> {
    let buffers = PyList::empty(py);
    let Ok(records) = records.cast::<PyList>() else {
        return Ok((0, position, buffers));
    };
    let mut queues = Queues::new(queue_offsets, next_queue_offset);
    let mut form: Option<Form<'py>> = None;
    let now = now_ms.into_pyobject(py)?;
    let (mut at, mut count, mut packed) = (position, 0, Vec::new());
    for index in start..records.len() {
        let record = records.get_item(index)?;
        let placed = read(&record).and_then(|one| {
            if !form.as_ref().is_some_and(|form| form.fits(&one)) {
                form = Some(Form::of(form_of, &record, &one)?);
            }
            let form = form.as_ref()?;
            let left = room.checked_sub(at.checked_sub(position)?)?;
            let size = form.size(&one).filter(|&size| i64::from(size) <= left)?;
            let end = at.checked_add(i64::from(size))?;
            let in_queue = one.sys_flag & WITHOUT_QUEUE == 0;
            let offset = if in_queue { queues.next(&one)? } else { 0 };
            set_place(&record, offset, at, size, &now).ok()?;
            let split = form.pack(&mut packed, &one, size, offset, at, now_ms)?;
            Some((end, in_queue, split.then_some(one)))
        });
        let Some((end, in_queue, apart)) = placed else { break };
        if in_queue {
            queues.advance();
        }
        (at, count) = (end, count + 1);
        if let (Some(one), Some(form)) = (apart, form.as_ref()) {
            buffers.append(PyBytes::new(py, &packed))?;
            buffers.append(&one.body)?;
            packed.clear();
            form.pack_tail(&mut packed, &one);
        }
    }
    queues.write_back()?;
    if !packed.is_empty() {
        buffers.append(PyBytes::new(py, &packed))?;
    }
    Ok((count, at, buffers))
}

/// What a record says of itself.
struct One<'py> {
    topic: Bound<'py, PyAny>,
    queue_id: i32,
    sys_flag: i32,
    flag: i32,
    born_ms: i64,
    born_ip: Bound<'py, PyBytes>,
    born_port: i32,
    store_ip: Bound<'py, PyBytes>,
    store_port: i32,
    reconsume_times: i32,
    prepared: i64,
    body: Bound<'py, PyAny>,
    body_size: usize,
    properties: Bound<'py, PyBytes>,
}

/// Read a record; None if Python has to place it, or to say what is wrong with it.
fn read<'py>(record: &Bound<'py, PyAny>) -> Option<One<'py>> {
    let py = record.py();
    let get = |name: &Bound<'py, PyString>| record.getattr(name).ok();
    if get(intern!(py, "has_inner"))?.is_truthy().ok()? {
        return None;
    }
    let (born_ip, born_port) = host(&get(intern!(py, "born_host"))?)?;
    let (store_ip, store_port) = host(&get(intern!(py, "store_host"))?)?;
    let body = get(intern!(py, "body"))?;
    let properties = get(intern!(py, "properties"))?.cast_into::<PyBytes>().ok()?;
    if properties.as_bytes().len() > PROPERTIES_MAX {
        return None;
    }
    Some(One {
        topic: get(intern!(py, "topic"))?,
        queue_id: get(intern!(py, "queue_id"))?.extract().ok()?,
        sys_flag: get(intern!(py, "sys_flag"))?.extract().ok()?,
        flag: get(intern!(py, "flag"))?.extract().ok()?,
        born_ms: get(intern!(py, "born_timestamp_ms"))?.extract().ok()?,
        born_ip,
        born_port,
        store_ip,
        store_port,
        reconsume_times: get(intern!(py, "reconsume_times"))?.extract().ok()?,
        prepared: get(intern!(py, "prepared_transaction_offset"))?.extract().ok()?,
        body_size: with_bytes(&body, <[u8]>::len)?,
        body,
        properties,
    })
}

fn host<'py>(host: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyBytes>, i32)> {
    let host = host.cast::<PyTuple>().ok()?;
    let ip = host.get_item(0).ok()?.cast_into::<PyBytes>().ok()?;
    Some((ip, host.get_item(1).ok()?.extract().ok()?))
}

fn set_place<'py>(
    record: &Bound<'py, PyAny>,
    queue_offset: i64,
    position: i64,
    size: i32,
    now_ms: &Bound<'py, PyInt>,
) -> PyResult<()> {
    let py = record.py();
    record.setattr(intern!(py, "queue_offset"), queue_offset)?;
    record.setattr(intern!(py, "commit_log_offset"), position)?;
    record.setattr(intern!(py, "size"), size)?;
    record.setattr(intern!(py, "store_timestamp_ms"), now_ms)
}

/// What the records of a topic share: Python's `Form`.
struct Form<'py> {
    topic: Bound<'py, PyAny>,
    ip_sizes: (usize, usize),
    magic: u32,
    hosts: i32,
    counted_topic: Bound<'py, PyBytes>,
    overhead: usize,
}

impl<'py> Form<'py> {
    fn of(form_of: &Bound<'py, PyAny>, record: &Bound<'py, PyAny>, one: &One<'py>) -> Option<Self> {
        let py = record.py();
        let form = form_of.call1((record,)).ok()?;
        let made = Form {
            topic: one.topic.clone(),
            ip_sizes: (one.born_ip.as_bytes().len(), one.store_ip.as_bytes().len()),
            magic: form.getattr(intern!(py, "magic")).ok()?.extract().ok()?,
            hosts: form.getattr(intern!(py, "hosts")).ok()?.extract().ok()?,
            counted_topic: form.getattr(intern!(py, "counted_topic")).ok()?.cast_into().ok()?,
            overhead: form.getattr(intern!(py, "overhead")).ok()?.extract().ok()?,
        };
        Some(made)
    }

    fn fits(&self, one: &One<'py>) -> bool {
        let sizes = (one.born_ip.as_bytes().len(), one.store_ip.as_bytes().len());
        self.topic.is(&one.topic) && self.ip_sizes == sizes
    }

    fn size(&self, one: &One<'py>) -> Option<i32> {
        let size = self.overhead.checked_add(one.body_size)?;
        i32::try_from(size.checked_add(one.properties.as_bytes().len())?).ok()
    }

    /// Append a record's bytes; return whether only its head, because the body is large.
    fn pack(
        &self,
        to: &mut Vec<u8>,
        one: &One<'py>,
        size: i32,
        queue_offset: i64,
        position: i64,
        now_ms: i64,
    ) -> Option<bool> {
        let apart = one.body_size > COPIED_BODY_MAX;
        to.reserve(if apart { HEAD_SIZE_MAX } else { size as usize });
        with_bytes(&one.body, |body| {
            to.extend_from_slice(&size.to_be_bytes());
            to.extend_from_slice(&self.magic.to_be_bytes());
            to.extend_from_slice(&(crc32fast::hash(body) & i32::MAX as u32).to_be_bytes());
            to.extend_from_slice(&one.queue_id.to_be_bytes());
            to.extend_from_slice(&one.flag.to_be_bytes());
            to.extend_from_slice(&queue_offset.to_be_bytes());
            to.extend_from_slice(&position.to_be_bytes());
            to.extend_from_slice(&(one.sys_flag & !IPV6_FLAGS | self.hosts).to_be_bytes());
            to.extend_from_slice(&one.born_ms.to_be_bytes());
            to.extend_from_slice(one.born_ip.as_bytes());
            to.extend_from_slice(&one.born_port.to_be_bytes());
            to.extend_from_slice(&now_ms.to_be_bytes());
            to.extend_from_slice(one.store_ip.as_bytes());
            to.extend_from_slice(&one.store_port.to_be_bytes());
            to.extend_from_slice(&one.reconsume_times.to_be_bytes());
            to.extend_from_slice(&one.prepared.to_be_bytes());
            to.extend_from_slice(&(body.len() as i32).to_be_bytes());
            if !apart {
                to.extend_from_slice(body);
            }
        })?;
        if !apart {
            self.pack_tail(to, one);
        }
        Some(apart)
    }

    fn pack_tail(&self, to: &mut Vec<u8>, one: &One<'py>) {
        let properties = one.properties.as_bytes();
        to.extend_from_slice(self.counted_topic.as_bytes());
        to.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        to.extend_from_slice(properties);
    }
}

/// The next offsets of queues: those of one topic here, the others in Python's dictionary.
struct Queues<'a, 'py> {
    offsets: &'a Bound<'py, PyDict>,
    first: &'a Bound<'py, PyAny>,
    topic: Option<Bound<'py, PyAny>>,
    of_topic: Vec<(i32, i64)>,
    last: usize,
}

impl<'a, 'py> Queues<'a, 'py> {
    fn new(offsets: &'a Bound<'py, PyDict>, first: &'a Bound<'py, PyAny>) -> Self {
        Queues { offsets, first, topic: None, of_topic: Vec::new(), last: 0 }
    }

    /// Return the offset of a record in its queue; `advance` says that it is taken.
    fn next(&mut self, one: &One<'py>) -> Option<i64> {
        if !self.topic.as_ref().is_some_and(|topic| topic.is(&one.topic)) {
            self.write_back().ok()?;
            self.of_topic.clear();
            self.topic = Some(one.topic.clone());
        }
        let found = self.of_topic.iter().position(|&(queue, _)| queue == one.queue_id);
        self.last = match found {
            Some(index) => index,
            None => {
                let key = (&one.topic, one.queue_id);
                let offset = match self.offsets.get_item(key).ok()? {
                    Some(known) => known,
                    None => self.first.call1(key).ok()?,
                };
                self.of_topic.push((one.queue_id, offset.extract().ok()?));
                self.of_topic.len() - 1
            }
        };
        let offset = self.of_topic.get(self.last)?.1;
        offset.checked_add(1).map(|_| offset)
    }

    fn advance(&mut self) {
        if let Some((_, offset)) = self.of_topic.get_mut(self.last) {
            *offset += 1;
        }
    }

    fn write_back(&self) -> PyResult<()> {
        if let Some(topic) = &self.topic {
            for &(queue_id, offset) in &self.of_topic {
                self.offsets.set_item((topic, queue_id), offset)?;
            }
        }
        Ok(())
    }
}
