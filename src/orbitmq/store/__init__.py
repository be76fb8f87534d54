"""A directory of files that is RocketMQ's: settings, layout, and the store as a whole."""
