"""Dead letters: figures, the page, and sending them again."""
