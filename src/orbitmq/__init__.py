"""Apache RocketMQ for Python and Spark teams."""
