"""Topics, groups and offsets, with the files they are kept in."""
