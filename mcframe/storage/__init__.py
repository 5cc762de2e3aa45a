"""Values as arrays and JSON, files of them, and digests of content."""
