"""Floor 2: values as arrays and JSON, files of them, and digests of content."""
