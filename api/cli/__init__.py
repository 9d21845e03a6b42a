"""The command line.  A command's module imports click alone; the log is imported when it is needed."""
