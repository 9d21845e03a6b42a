"""Backups of the log itself: made while it is written, verified before they count, and restored under a new epoch."""
