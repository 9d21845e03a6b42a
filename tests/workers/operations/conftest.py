from tests.workers.operations.receiver import receiver

__all__ = ["receiver"]  # a fixture
