"""spark.columns: see DESIGN.md."""
