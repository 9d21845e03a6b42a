"""Views folded from the log; each can be thrown away, rebuilt and verified."""
