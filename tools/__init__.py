"""What writes documents, and builds the site; nothing here is part of the package."""
