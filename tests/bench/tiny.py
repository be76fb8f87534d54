"""Settings of stores that are made and read in no time."""

from orbitmq.store.settings import StoreSettings

TINY = StoreSettings(
    segment_bytes=1 << 20, queue_file_entries=1000, index_slots=100, index_entries=50_000
)
