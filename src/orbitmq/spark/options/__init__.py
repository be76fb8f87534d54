"""spark.options: see DESIGN.md."""
