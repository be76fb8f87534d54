"""Topics, groups, offsets, messages, members and servers, for operators."""
