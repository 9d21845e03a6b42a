"""What the requests of a worker share on its event loop: one client, made when the first needs it, and looks at the store."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from ..gathered import Gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..commands.log import JobLog
    from .client import OutboundClient
    from .credential import Credential


class Clients:
    """Connections outlive a job: the next one to the same provider finds them open."""

    def __init__(self, log: JobLog, environ: Mapping[str, str] | None = None, *, actor: str = "") -> None:
        self._log, self._environ = log, os.environ if environ is None else environ
        self._actor = actor
        self._made: OutboundClient | None = None
        self._gathered: dict[str, Gathered[Any, Any]] = {}
        self.loop = asyncio.get_running_loop()

    def client(self) -> OutboundClient:
        """The client; on the loop."""
        if self._made is None:
            from .settings import client_for

            self._made = client_for(self._log, self._environ, actor=self._actor)
        return self._made

    def gathered(self, name: str, answer: Callable[[Sequence[Any]], Sequence[Any]]) -> Gathered[Any, Any]:
        """Questions of all jobs that are answered together; *answer* of the first that asks for *name*."""
        if (found := self._gathered.get(name)) is None:
            found = self._gathered[name] = Gathered(answer)
        return found

    def credential(self, reference: str, hosts: tuple[str, ...], *, tenant: str) -> Credential:
        """The credential behind *reference*, for these hosts only."""
        from .settings import credential_for

        return credential_for(self._log, self._environ, reference, *hosts, tenant=tenant)

    async def close(self) -> None:
        """Hang up."""
        made, self._made = self._made, None
        if made is not None:
            await made.close()
