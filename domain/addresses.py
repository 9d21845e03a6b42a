"""Addresses of those who act, as they are kept: in one of two columns, an embedded IPv4 as IPv4."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def split(text: str) -> tuple[str, str]:
    """*text* as (IPv4, IPv6), of which at least one is empty; both if it is no address."""
    try:
        found = ip_address(text.strip().strip("[]").partition("%")[0])
    except ValueError:
        return "", ""
    if isinstance(found, IPv6Address):
        return (str(found.ipv4_mapped), "") if found.ipv4_mapped else ("", str(found))
    return str(found), ""
