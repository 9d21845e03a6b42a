"""Tamper evidence: a Merkle tree over the stored bytes of the log, signed heads, proofs, and verification."""
