"""spark.streaming: see DESIGN.md."""
