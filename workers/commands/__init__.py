"""The commands of the log: what workers, the API and the CLI call.

Each loads, lets the aggregate decide, and appends; nothing else writes a job.
"""
