"""A credential of one provider: sent to that provider's hosts and nowhere else (SEC-06)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import Fatal
from .headers import Headers, checked

if TYPE_CHECKING:
    from .guard import Guard
    from .target import Target


@dataclass(frozen=True, slots=True)
class Credential:
    """*reference* is what may be stored and shown; *reveal* gives the value at the last moment.

    *hosts*: exact names; one that begins with a dot stands for all names below it.
    """

    reference: str
    hosts: tuple[str, ...]
    reveal: Callable[[str], Awaitable[str]] = field(repr=False)
    header: str = "Authorization"
    prefix: str = "Bearer "

    def is_for(self, host: str) -> bool:
        """Whether *host* is one of the provider's."""
        return any(host.endswith(each) if each.startswith(".") else host == each for each in map(str.lower, self.hosts))

    async def headers_for(self, target: Target, guard: Guard) -> Headers:
        """The header for *target*; none for a host that is not the provider's.

        Raises:
            Fatal: it would go over the network in clear.
        """
        if not self.is_for(target.host):
            return []
        if target.scheme != "https" and not guard.is_opened(target):
            raise Fatal("credential-in-clear", "a credential is only sent over https")
        return checked({self.header: self.prefix + await self.reveal(self.reference)})
