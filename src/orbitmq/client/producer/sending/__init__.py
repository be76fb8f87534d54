"""One send: queue, packing, attempts, retries, receipt."""
