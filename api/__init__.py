"""The ways in: HTTP, the page and the command line."""
