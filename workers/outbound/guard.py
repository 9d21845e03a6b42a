"""The guard of every request: which destinations are allowed, judged before and after each connection (SSR-01…06).

The order is fixed: the URL by one strict parser, scheme, host, port, name, then one look-up whose every address is judged,
then the socket is only made for a judged address, then the peer that really answered is judged again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...domain.errors import InvalidFieldError
from .address import OPENABLE, Address, Network, kind_of
from .errors import DestinationRefusedError
from .target import Target, is_public_name, parse_url, redirected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PORTS: Final = frozenset({80, 443, 8080, 8443})
ANSWERS_LIMIT: Final = 32
REDIRECTS_LIMIT: Final = 3
_LAST_PORT: Final = 65_535
_KEPT: Final = 1024
_address: Final = lru_cache(1024)(ip_address)


class Resolver(Protocol):
    """Looks a name up, once."""

    async def __call__(self, host: str, port: int, /) -> Sequence[str]:
        """The addresses of *host*; raises ``OSError`` (as ``socket.gaierror``) where there are none."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A destination inside that an operator allows: this name or literal, at these addresses, on these ports."""

    host: str
    networks: tuple[Network, ...]
    ports: frozenset[int] = PORTS

    @classmethod
    def parse(cls, text: str) -> Opening:
        """Read ``HOST ADDRESS[,ADDRESS…] [PORT[,PORT…]]``, an address with or without a prefix length.

        Raises:
            InvalidFieldError: anything else.
        """
        host, addresses, ports, *more = [*text.split(), "", "", ""][:4]
        try:
            networks = tuple(ip_network(each) for each in addresses.split(","))
            numbers = frozenset(int(each) for each in ports.split(",")) if ports else PORTS
        except ValueError:
            networks, numbers = (), PORTS
        if not networks or any(more) or not all(0 < each <= _LAST_PORT for each in numbers):
            raise InvalidFieldError("allow", f"{text[:80]!r} opens nothing", "say HOST ADDRESS[,ADDRESS] [PORT,PORT]")
        return cls(host.lower().strip("[]"), networks, numbers)


@dataclass(slots=True)
class Approval:
    """What one request to one target may connect to; filled by its one look-up."""

    target: Target
    addresses: frozenset[Address] = frozenset()
    must_look_up: bool = False  #: not over a connection of an earlier request
    refusal: DestinationRefusedError | None = None  #: kept, because the transport below wraps or swallows exceptions

    def refuse(self, category: str, detail: str) -> DestinationRefusedError:
        """Make and keep a refusal."""
        self.refusal = DestinationRefusedError(category, f"{self.target.authority}: {detail}")
        return self.refusal


@dataclass(frozen=True)
class Guard:
    """The rules.  *own*: addresses of this service that look public; *openings*: what is allowed inside."""

    openings: tuple[Opening, ...] = ()
    own: frozenset[Address] = frozenset()
    ports: frozenset[int] = PORTS
    _opened: dict[str, Opening] = field(init=False, repr=False, compare=False, hash=False, default_factory=dict)
    # What was judged to be good by these rules, which never change: looked at once, not for each request.
    _peers: dict[tuple[Any, ...], bool] = field(init=False, repr=False, compare=False, hash=False, default_factory=dict)
    _literals: dict[tuple[str, int], frozenset[Address]] = field(
        init=False, repr=False, compare=False, hash=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """Find an opening by its host."""
        self._opened.update((opening.host, opening) for opening in self.openings)

    @classmethod
    def made(cls, *, allow: Iterable[str] = (), own: Iterable[str] = ()) -> Guard:
        """From settings: ``Opening.parse`` of each *allow*."""
        return cls(tuple(map(Opening.parse, allow)), frozenset(map(ip_address, own)))

    # -- before anything is looked up ----------------------------------------------------------------------------

    def check(self, url: str) -> Approval:
        """Judge a URL by itself.

        Raises:
            DestinationRefusedError: it can't be allowed whatever its name resolves to.
        """
        return self._checked(parse_url(url))

    def check_redirect(self, origin: Target, location: str) -> Approval:
        """Judge where an answer of *origin* points; as ``check``."""
        return self._checked(redirected(origin, location))

    def _checked(self, target: Target) -> Approval:
        approval = Approval(target)
        opening = self._opened.get(target.host)
        if target.port not in self.ports and (opening is None or target.port not in opening.ports):
            raise approval.refuse("port", "port off the list")
        if target.address is not None:
            place = (target.host, target.port)
            if (good := self._literals.get(place)) is not None:
                approval.addresses = good
            else:
                self._literals[place] = self._judge(approval, [target.address])
                _bound(self._literals)
        elif opening is None and not is_public_name(target.host):
            raise approval.refuse("name", "no name of the public DNS")
        return approval

    def is_opened(self, target: Target) -> bool:
        """Whether an operator allows this name inside."""
        return target.host in self._opened

    # -- after the one look-up -----------------------------------------------------------------------------------

    def answered(self, approval: Approval, answers: Sequence[str]) -> frozenset[Address]:
        """Judge every address that the look-up gave; one bad one refuses them all.

        Raises:
            DestinationRefusedError: one of them is none to connect to.
        """
        if len(answers) > ANSWERS_LIMIT:
            raise approval.refuse("answers", f"{len(answers)} addresses for one name")
        addresses: list[Address] = []
        for answer in answers:
            try:
                addresses.append(_address(answer))
            except ValueError:
                raise approval.refuse("answers", "an answer that is no address") from None
        return self._judge(approval, addresses)

    def _judge(self, approval: Approval, addresses: list[Address]) -> frozenset[Address]:
        for address in addresses:
            if kind := self._barred(approval.target, address):
                raise approval.refuse("address", f"{address} is {kind}")
        approval.addresses = frozenset(addresses)
        return approval.addresses

    def _barred(self, target: Target, address: Address) -> str:
        """Empty where *target* may be at *address*; else what is against it."""
        if getattr(address, "scope_id", None):
            return "scoped"
        kind = "own" if address in self.own else kind_of(address)
        if kind and kind in OPENABLE and self._is_open(target, address):
            return ""
        return kind

    def _is_open(self, target: Target, address: Address) -> bool:
        opening = self._opened.get(target.host)
        return (
            opening is not None and target.port in opening.ports and any(address in each for each in opening.networks)
        )

    # -- at the socket -------------------------------------------------------------------------------------------

    def check_socket(self, approval: Approval, sockaddr: Sequence[Any]) -> None:
        """The last look before a connection: only to an address that was judged for this very request.

        Raises:
            DestinationRefusedError: it is another one.
        """
        address, port = _address(sockaddr[0]), sockaddr[1]
        if address not in approval.addresses or port != approval.target.port or any(sockaddr[2:]):
            raise approval.refuse("socket", f"{address} port {port} was not judged")

    def check_peer(self, approval: Approval, peer: Sequence[Any] | None, local: Sequence[Any] | None) -> None:
        """Judge who answered, also on a connection that is used again, before anything is sent.

        Raises:
            DestinationRefusedError: not who was judged, or this machine itself by a public address.
        """
        if not peer:
            raise approval.refuse("peer", "the connection does not say where it goes")
        key = (approval.target.host, approval.target.port, *peer[:2], local[0] if local else "")
        is_known = approval.target.address is not None or not approval.addresses  # else they were just looked up
        if is_known and key in self._peers:
            return
        address = _address(peer[0])
        kind = self._barred(approval.target, address)
        if kind or (approval.addresses and address not in approval.addresses) or peer[1] != approval.target.port:
            raise approval.refuse("peer", f"{address} port {peer[1]} answered{f', {kind}' if kind else ''}")
        if local and _address(local[0]) == address and not self._is_open(approval.target, address):
            raise approval.refuse("peer", f"{address} is an address of this machine")
        self._peers[key] = True
        _bound(self._peers)


def _bound(kept: dict[Any, Any]) -> None:
    if len(kept) > _KEPT:
        kept.clear()
