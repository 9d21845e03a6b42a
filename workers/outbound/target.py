"""Where a URL points, by one strict parser.

What two parsers could read in two ways is refused, not repaired: a check is only worth something when the connection goes
where the check looked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

from .errors import DestinationRefusedError

if TYPE_CHECKING:
    from .address import Address

URL_LIMIT: Final = 2048
_NAME_LIMIT: Final = 253
_PORTS: Final = {"http": 80, "https": 443}
_LAST_PORT: Final = 65_535

_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\??[^#]*).*"
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PRINTABLE: Final = re.compile(r"[!-\[\]-~]+")  # ASCII without blanks and backslash
_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9.-]+))(?::(?P<port>[1-9][0-9]{0,4}))?"
)
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_QUAD: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")

#: Top labels that no public name has: whatever answers for them is inside (RFC 6761 and its registry, ICANN's reserved).
SPECIAL_USE: Final = frozenset(
    [
        "alt",
        "arpa",
        "corp",
        "domain",
        "example",
        "home",
        "internal",
        "intranet",
        "invalid",
        "lan",
        "local",
        "localdomain",
        "localhost",
        "mail",
        "onion",
        "private",
        "svc",
        "test",
        "workgroup",
    ]
)


@dataclass(frozen=True)
class Target:
    """One destination: the scheme, host and port that the connection goes to, and what is asked for there."""

    scheme: str
    host: str  #: lower case, without brackets
    port: int
    path: str  #: with the query; never empty
    address: Address | None  #: of a literal

    @cached_property
    def origin(self) -> tuple[str, str, int]:
        """What two URLs share when a credential for one is meant for the other."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @cached_property
    def url(self) -> str:
        """The URL again, in its one spelling."""
        return f"{self.scheme}://{self.authority}{self.path}"


@lru_cache(1024)
def parse_url(url: str) -> Target:
    """Read *url*.

    Raises:
        DestinationRefusedError: anything but a plain http or https URL; the category says what.
    """
    if len(url) > URL_LIMIT or not _PRINTABLE.fullmatch(url):
        raise DestinationRefusedError("url", "too long, or a character that has no place in a URL")
    match = _URL.fullmatch(url)
    if match is None:
        raise DestinationRefusedError("url", "no absolute URL")
    scheme = match["scheme"].lower()
    if scheme not in _PORTS:
        raise DestinationRefusedError("scheme", f"scheme {scheme[:20]}")
    if "@" in match["authority"]:
        raise DestinationRefusedError("userinfo", "user-info in the URL")
    authority = _AUTHORITY.fullmatch(match["authority"])
    if authority is None:
        raise DestinationRefusedError("host", "host or port not in their canonical form")
    port = int(authority["port"] or _PORTS[scheme])
    if port > _LAST_PORT:
        raise DestinationRefusedError("port", "no such port")
    host, address = _host(authority)
    path = (match["path"] or "/") + ("" if match["query"] == "?" else match["query"])
    return Target(scheme, host, port, path, address)


def redirected(origin: Target, location: str) -> Target:
    """Where a Location header of an answer from *origin* points.

    Raises:
        DestinationRefusedError: as ``parse_url``, or from https down to http.
    """
    if len(location) > URL_LIMIT or not _PRINTABLE.fullmatch(location):
        raise DestinationRefusedError("url", "a redirect to what is no URL")
    if location.startswith("//"):
        location = f"{origin.scheme}:{location}"
    elif not _SCHEME.match(location):  # joining is for paths only: it would read `https:///host` as one
        location = urljoin(origin.url, location)
    target = parse_url(location)
    if origin.scheme == "https" and target.scheme == "http":
        raise DestinationRefusedError("redirect", "a redirect from https to http")
    return target


def is_public_name(host: str) -> bool:
    """Whether *host* has the form of a name in the public DNS."""
    labels = host.split(".")
    return len(labels) > 1 and labels[-1] not in SPECIAL_USE


def _host(match: re.Match[str]) -> tuple[str, Address | None]:
    try:
        if (inner := match["bracketed"]) is not None:
            address: Address = IPv6Address(inner)
            return str(address), address
        host = match["host"].lower()
        if _QUAD.fullmatch(host):
            address = IPv4Address(host)
            return str(address), address
    except ValueError:
        raise DestinationRefusedError("host", "no IP address in its canonical form") from None
    labels = host.split(".")
    if len(host) > _NAME_LIMIT or not all(map(_LABEL.fullmatch, labels)):
        raise DestinationRefusedError("host", "no host name")
    if _NUMERIC.fullmatch(labels[-1]):
        raise DestinationRefusedError("host", "a number that some read as an address")
    if "xn--" in host:
        _check_idna(labels)
    return host, None


def _check_idna(labels: list[str]) -> None:
    import idna

    for label in labels:
        if label.startswith("xn--"):
            try:
                valid = idna.alabel(idna.ulabel(label)) == label.encode()
            except (idna.IDNAError, UnicodeError):
                valid = False
            if not valid:
                raise DestinationRefusedError("host", "an internationalised name that does not decode")
