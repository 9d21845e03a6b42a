"""What kind of address one is: ordinary unicast of the internet, or the kind that a request must not reach.

``ipaddress.is_global`` is no guard: it says yes to embedded, multicast and host-only addresses, and its answers change
between releases of Python.  These are the blocks of the IANA registries of special-purpose addresses.
"""

from __future__ import annotations

from bisect import bisect_right
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ORDINARY: Final = ""
#: Kinds that an allow list may open; the others are never a place for a request.
OPENABLE: Final = frozenset({"loopback", "private", "shared", "benchmark", "documentation", "own"})

_BLOCKS_4: Final = {
    "0.0.0.0/8": "reserved",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "metadata",  # a public address that only answers inside one cloud
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "embedded",  # relays of 6to4
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "benchmark",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
# Outside 2000::/3 everything is refused; these only give it a better name.
_BLOCKS_6: Final = {
    "::/128": "reserved",
    "::1/128": "loopback",
    "::ffff:0:0/96": "embedded",  # IPv4-mapped
    "::ffff:0:0:0/96": "embedded",  # IPv4-translated
    "64:ff9b::/96": "embedded",  # NAT64
    "64:ff9b:1::/48": "embedded",
    "2001::/32": "embedded",  # Teredo
    "2001:1::/32": "reserved",
    "2001:2::/31": "reserved",
    "2001:4::/30": "reserved",
    "2001:8::/29": "reserved",
    "2001:10::/28": "reserved",
    "2001:20::/27": "reserved",
    "2001:40::/26": "reserved",
    "2001:80::/25": "reserved",
    "2001:100::/24": "reserved",
    "2001:db8::/32": "documentation",
    "2002::/16": "embedded",  # 6to4
    "2620:4f:8000::/48": "reserved",
    "3ffe::/16": "reserved",
    "3fff::/20": "documentation",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "reserved",
    "ff00::/8": "multicast",
}
_METADATA: Final = frozenset(
    map(int, (IPv4Address("100.100.100.200"), IPv6Address("fd00:ec2::254"), IPv6Address("fd20:ce::254")))
)
_GLOBAL_6: Final = IPv6Network("2000::/3")
_ISATAP: Final = 0x00005EFE  # the upper half of an interface id, apart from its two flag bits
_ISATAP_MASK: Final = 0xFCFFFFFF
_LOW_32: Final = 0xFFFFFFFF


def _table(blocks: dict[str, str], network: type[Network]) -> tuple[list[int], list[tuple[int, str]]]:
    rows = sorted(
        (int(block.network_address), int(block.broadcast_address), kind)
        for block, kind in ((network(text), kind) for text, kind in blocks.items())
    )
    return [row[0] for row in rows], [(row[1], row[2]) for row in rows]


_FIRST_4, _REST_4 = _table(_BLOCKS_4, IPv4Network)
_FIRST_6, _REST_6 = _table(_BLOCKS_6, IPv6Network)
_GLOBAL_FIRST: Final = int(_GLOBAL_6.network_address)
_GLOBAL_LAST: Final = int(_GLOBAL_6.broadcast_address)


def kind_of(address: Address) -> str:
    """Empty for ordinary unicast, else what it is instead."""
    number = int(address)
    if number in _METADATA:
        return "metadata"
    if isinstance(address, IPv4Address):
        return _found(number, _FIRST_4, _REST_4) or ORDINARY
    if found := _found(number, _FIRST_6, _REST_6):
        return found
    if not _GLOBAL_FIRST <= number <= _GLOBAL_LAST:
        return "embedded" if number <= _LOW_32 else "reserved"  # IPv4-compatible, or nothing at all
    if (number >> 32) & _ISATAP_MASK == _ISATAP:
        return "embedded"
    return ORDINARY


def _found(number: int, firsts: list[int], rest: list[tuple[int, str]]) -> str:
    at = bisect_right(firsts, number) - 1
    if at < 0:
        return ""
    last, kind = rest[at]
    return kind if number <= last else ""
