"""What the tests of the way out share."""

import pytest

from tests.workers.outbound.authority import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give a certificate authority that no system trusts."""
    return Authority(tmp_path_factory.mktemp("authority"))
