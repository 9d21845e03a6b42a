"""SSR-03: the guard is at least as strict as the standard library wherever that one has an opinion."""

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from joblog.workers.outbound.address import kind_of

PREFIXES = (0, 0x64, 0x100, 0x2000, 0x2001, 0x2002, 0x2620, 0x3FFF, 0x5F00, 0xFC00, 0xFE80, 0xFEC0, 0xFF00)
#: What some release of Python calls global although it is none of the internet's unicast is refused all the same.
NEVER = ("is_multicast", "is_reserved", "is_loopback", "is_private", "is_link_local", "is_unspecified")


def is_suspect(address: IPv4Address | IPv6Address) -> bool:
    return not address.is_global or any(getattr(address, name) for name in NEVER)


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_no_ipv4_address_is_ordinary_that_the_library_doubts(address: IPv4Address) -> None:
    assert kind_of(address) or not is_suspect(address)


@given(st.sampled_from(PREFIXES), st.integers(0, 2**112 - 1) | st.integers(0, 2**32 - 1))
def test_no_ipv6_address_is_ordinary_that_the_library_doubts(prefix: int, rest: int) -> None:
    address = IPv6Address(prefix << 112 | rest)
    embeds = address.ipv4_mapped or address.sixtofour or address.teredo or address.is_site_local

    assert kind_of(address) or not (is_suspect(address) or embeds)
