"""spark.cluster: see DESIGN.md."""
