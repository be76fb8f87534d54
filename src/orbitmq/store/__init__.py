"""Files of a broker, byte for byte those of RocketMQ: append, flush, dispatch, read, recover."""
