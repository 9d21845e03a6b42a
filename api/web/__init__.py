"""The page: rendered on the server, without JavaScript first; it holds no state of its own."""
