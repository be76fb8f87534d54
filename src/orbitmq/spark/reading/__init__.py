"""spark.reading: see DESIGN.md."""
