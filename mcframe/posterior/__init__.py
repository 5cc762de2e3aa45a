"""The posterior of a declared model: what is likely, and how sure it is."""
