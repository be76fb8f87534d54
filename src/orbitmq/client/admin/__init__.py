"""Topics, queues and single messages, for operators."""
