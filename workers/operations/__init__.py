"""The built-in operations: what they read, what they write, and how a resume finds its place again."""
