"""Reports as single HTML files: pages, tables and charts, without scripts and without a network."""
