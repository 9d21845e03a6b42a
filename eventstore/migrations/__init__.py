"""Schema changes, one file each: expand-only for one release, up, down and checked."""
