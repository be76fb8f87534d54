"""spark.writing: see DESIGN.md."""
