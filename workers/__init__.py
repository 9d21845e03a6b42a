"""Processes that take leases and run units, and the commands of the log that they, the API and the CLI call."""
