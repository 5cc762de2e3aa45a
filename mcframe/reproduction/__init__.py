"""Floor 9: the tables and figures of the papers, one command each."""
