"""The command line.  Every module here imports click alone; the log is imported when a command needs it."""
