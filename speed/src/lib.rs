//! The inner loops of orbitmq's broker, compiled: each function does what the Python function of
//! the same name in `orbitmq` does, with the same arguments, results and errors.
//!
//! A function whose documentation speaks of "leading" ones takes what it surely understands, and
//! leaves the rest to Python: a record or frame that is unusual in any way is never an error here.
//! The interpreter's lock is held all the time.

use pyo3::prelude::*;

mod answers;
mod batches;
mod bytes;
mod frames;
mod hashes;
mod header;
mod index;
mod records;
mod texts;

#[pymodule]
fn orbitmq_speed(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(answers::answer_frames, module)?)?;
    module.add_function(wrap_pyfunction!(batches::batch_records, module)?)?;
    module.add_function(wrap_pyfunction!(frames::cut_sends, module)?)?;
    module.add_function(wrap_pyfunction!(index::chain_entries, module)?)?;
    module.add_function(wrap_pyfunction!(index::index_keys, module)?)?;
    module.add_function(wrap_pyfunction!(records::place_records, module)?)?;
    Ok(())
}
