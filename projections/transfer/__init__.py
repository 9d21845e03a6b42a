"""The log as a file: exported as its stored bytes, checked anywhere, and taken into an empty log again."""
