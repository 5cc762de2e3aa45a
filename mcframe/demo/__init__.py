"""The demo, above all floors: half a table hidden, completed, scored, compared, drawn."""
