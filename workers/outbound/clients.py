"""The one client of a worker, made on its event loop when the first request needs it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..commands.log import JobLog
    from .client import OutboundClient
    from .credential import Credential


class Clients:
    """Connections outlive a job: the next one to the same provider finds them open."""

    def __init__(self, log: JobLog, environ: Mapping[str, str] | None = None, *, actor: str = "") -> None:
        self._log, self._environ = log, os.environ if environ is None else environ
        self._actor = actor
        self._made: OutboundClient | None = None
        self.loop = asyncio.get_running_loop()

    def client(self) -> OutboundClient:
        """The client; on the loop."""
        if self._made is None:
            from .settings import client_for

            self._made = client_for(self._log, self._environ, actor=self._actor)
        return self._made

    def credential(self, reference: str, hosts: tuple[str, ...], *, tenant: str) -> Credential:
        """The credential behind *reference*, for these hosts only."""
        from .settings import credential_for

        return credential_for(self._log, self._environ, reference, *hosts, tenant=tenant)

    async def close(self) -> None:
        """Hang up."""
        made, self._made = self._made, None
        if made is not None:
            await made.close()
