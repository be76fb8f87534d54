"""spark.pulling: see DESIGN.md."""
