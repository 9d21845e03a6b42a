from tests.conformance.conftest import backend, database, prepared

__all__ = ["backend", "database", "prepared"]
