"""The way out: requests to the outside that are bounded, guarded and judged."""
