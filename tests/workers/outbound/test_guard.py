"""SSR-01 to SSR-03: what a URL and the answers for its name are worth, row by row; nothing is ever contacted."""

import itertools
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from joblog.domain.errors import InvalidFieldError
from joblog.workers.outbound.address import kind_of
from joblog.workers.outbound.errors import DestinationRefusedError
from joblog.workers.outbound.guard import REDIRECTS_LIMIT, Guard, Opening
from tests.workers.outbound import corpora

ROWS = corpora.rows("ssrf-corpus.tsv")
FAILED_LOOKUPS = {"NXDOMAIN", "SERVFAIL", "TIMEOUT"}
OWN = "93.184.215.77"


def walk(guard: Guard, url: str, resolved: str) -> list[str]:
    """Go the way of a request, hop by hop, with the row's resolver; gives each address that would be connected to."""
    contacted = []
    hops, answers = url.split(" => "), resolved.split(" => ")
    approval = guard.check(hops[0])
    for number, (hop, answer) in enumerate(itertools.zip_longest(hops, answers)):
        if number > REDIRECTS_LIMIT:
            raise DestinationRefusedError("redirect", "too many")
        if number:
            approval = guard.check_redirect(approval.target, hop)
        first, _, second = answer.partition("; ")
        if first in FAILED_LOOKUPS or first == "EMPTY":
            raise OSError(first)
        if approval.target.address is None:
            guard.answered(approval, first.split(","))
        [address, *_] = sorted(map(str, approval.addresses))
        sockaddr = (address, approval.target.port, 0, 0)
        guard.check_socket(approval, sockaddr[: 2 if "." in address else 4])
        peer = second.removeprefix("peer:") if second.startswith("peer:") else address
        guard.check_peer(approval, (peer, approval.target.port), ("192.168.7.7", 1))
        contacted.append(address)
    return contacted


@pytest.mark.parametrize(("url", "resolved", "verdict", "reason"), ROWS, ids=[row[3] for row in ROWS])
def test_a_row_of_the_corpus(url: str, resolved: str, verdict: str, reason: str) -> None:
    guard = Guard.made(own=[OWN])
    outcome = "allow"
    try:
        walk(guard, corpora.unescaped(url), resolved)
    except DestinationRefusedError:
        outcome = "deny"
    except OSError:
        outcome = "retry"

    if resolved in FAILED_LOOKUPS or resolved == "EMPTY":
        assert outcome == "retry"
    else:
        assert outcome == verdict


def test_the_corpus_is_whole() -> None:
    assert len(ROWS) == 278
    assert {row[2] for row in ROWS} == {"allow", "deny"}


def refused(url: str, *answers: str, guard: Guard | None = None) -> str:
    """The category of the refusal; empty if it is allowed."""
    guard = guard or Guard()
    try:
        approval = guard.check(url)
        if answers:
            guard.answered(approval, answers)
    except DestinationRefusedError as error:
        return error.category
    return ""


# -- more URLs of the same kinds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://0x7f.1/",
        "http://0X7F000001/",
        "http://[::ffff:0x7f.1]/",
        "http://[fe80::1%25]/",
        "http://[::1%lo]/",
        "http://[]/",
        "http://[::1].example.com/",
        "http://[2606:4700:4700::1111]:6379/",
        "http://hooks.example.com:65536/",
        "http://hooks.example.com:99999/",
        "http://hooks.example.com:0080/",
        "http://hooks.example.com:80@127.0.0.1/",
        "http://hooks.example.com%2e/",
        "http://exa_mple.com/",
        "http://example.com../",
        "http://example.com,127.0.0.1/",
        "http://example.com;127.0.0.1/",
        "http://xn--/",
        "http://xn--nxasmm1c--.example.org/",
        "http://xn--fa-hia.xn--a/",
        "http://host.onion/",
        "http://host.test/",
        "http://gateway/",
        "http://printer.local/",
        "http://wpad.lan/",
        "http://255.255.255.255.255/",
        "http://1.2.3/",
        "http://01.2.3.4/",
        "http://1.2.3.4.0x/",
        "http:\\\\127.0.0.1\\",
        "http://127.0.0.1\x00.example.com/",
        "https://hooks.example.com/\x7f",
        "//hooks.example.com/",
        "https:hooks.example.com",
        "https//hooks.example.com/",
        "data:text/plain,x",
        "blob:https://hooks.example.com/x",
        "about:blank",
        "dict://127.0.0.1:11211/",
        "sftp://hooks.example.com/",
        "https+unix://hooks.example.com/",
    ],
)
def test_another_url_that_two_parsers_could_read_in_two_ways_is_refused(url: str) -> None:
    assert refused(url)


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("HTTPS://Hooks.Example.COM/", "https://hooks.example.com/"),
        ("https://hooks.example.com/%zz?a=[b]{c}|d^e`", "https://hooks.example.com/%zz?a=[b]{c}|d^e`"),
        ("https://xn--fa-hia.de/", "https://xn--fa-hia.de/"),
        ("https://xn--bcher-kva.example.com:8443", "https://xn--bcher-kva.example.com:8443/"),
        ("https://hooks.example.com/a//b/../c?d#e@127.0.0.1", "https://hooks.example.com/a//b/../c?d"),
        ("https://r3---sn-abc.example.net?x", "https://r3---sn-abc.example.net/?x"),
        ("https://hooks.example.com/a?#x", "https://hooks.example.com/a"),
        ("http://test.example.com:443/", "http://test.example.com:443/"),
        ("https://example.dev:443/", "https://example.dev/"),
    ],
)
def test_a_usual_url_is_allowed_in_its_one_spelling(url: str, spelled: str) -> None:
    assert Guard().check(url).target.url == spelled


@given(st.text() | st.from_regex(r"https?://[\w.:\[\]@%\\-]{1,40}/?", fullmatch=True))
def test_whatever_the_url_the_answer_is_a_refusal_or_a_target(url: str) -> None:
    try:
        target = Guard().check(url).target
    except DestinationRefusedError:
        return
    assert Guard().check(target.url).target == target


URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(
        ["hooks.example.com", "EXAMPLE.org", "8.8.8.8", "[2606:4700:4700::1111]", "xn--fa-hia.de", "a.b-c.example.net"]
    ),
    st.sampled_from(["", ":80", ":443", ":8080", ":8443"]),
    st.just("")
    | st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40).map(lambda text: f"/{text}"),
)


@given(URLS)
def test_the_transports_parser_reads_what_the_guard_has_judged(url: str) -> None:
    """Two parsers, one destination: what is connected to is where the check looked."""
    try:
        target = Guard().check(url).target
    except DestinationRefusedError:
        return
    read = URL(target.url, encoded=True)

    assert (read.scheme, read.raw_host, read.port) == (target.scheme, target.host, target.port)
    assert read.raw_path_qs == target.path
    assert (read.raw_user, read.raw_password, read.raw_fragment) == (None, None, "")


LOCATIONS = [
    ("/next", "https://hooks.example.com/next"),
    ("next?x#y", "https://hooks.example.com/a/next?x"),
    ("?x", "https://hooks.example.com/a/b?x"),
    ("//other.example.com", "https://other.example.com/"),
    ("HTTPS://other.example.com:8443/", "https://other.example.com:8443/"),
    ("../../../c", "https://hooks.example.com/c"),
]


@pytest.mark.parametrize(("location", "wanted"), LOCATIONS)
def test_a_redirect_is_resolved_against_where_it_came_from(location: str, wanted: str) -> None:
    origin = Guard().check("https://hooks.example.com/a/b").target

    assert Guard().check_redirect(origin, location).target.url == wanted


@pytest.mark.parametrize(
    "location",
    [
        "http://hooks.example.com/",
        "https:///127.0.0.1/",
        "https:127.0.0.1",
        "https:/127.0.0.1/",
        "///127.0.0.1/",
        "//127.0.0.1",
        "/\\127.0.0.1",
        "\\\\127.0.0.1",
        "//user@other.example.com/",
        "javascript:alert(1)",
        "a:b",
        "/ x",
        "/\r\nSet-Cookie: x",
        "/" + "a" * 2100,
        "//[::1",
    ],
)
def test_a_redirect_elsewhere_is_refused(location: str) -> None:
    origin = Guard().check("https://hooks.example.com/a/b").target

    with pytest.raises(DestinationRefusedError):
        Guard().check_redirect(origin, location)


# -- addresses -------------------------------------------------------------------------------------------------------

BLOCKED_4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "168.63.129.16/32",
]
OPEN_6, BLOCKED_6 = (
    "2000::/3",
    ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20"],
)


@given(st.ip_addresses(v=4) | st.sampled_from(BLOCKED_4).flatmap(lambda block: st.ip_addresses(network=block)))
def test_an_ipv4_address_is_ordinary_outside_the_blocks_only(address: IPv4Address) -> None:
    assert (kind_of(address) == "") == (not any(address in IPv4Network(block) for block in BLOCKED_4))


@given(st.ip_addresses(v=6) | st.sampled_from([OPEN_6, *BLOCKED_6]).flatmap(lambda net: st.ip_addresses(network=net)))
def test_an_ipv6_address_is_ordinary_inside_global_unicast_only(address: IPv6Address) -> None:
    is_inside = address in IPv6Network(OPEN_6) and not any(address in IPv6Network(block) for block in BLOCKED_6)
    is_isatap = (int(address) >> 32) & 0xFCFFFFFF == 0x5EFE

    assert (kind_of(address) == "") == (is_inside and not is_isatap)


@pytest.mark.parametrize("block", BLOCKED_4)
def test_both_ends_of_a_block_belong_to_it(block: str) -> None:
    network = IPv4Network(block)

    assert kind_of(network.network_address)
    assert kind_of(network.broadcast_address)


@given(st.ip_addresses(v=4), st.sampled_from([0xFFFF << 32, 0xFFFF << 48, 0, 0x64FF9B << 96, 0x64FF9B0001 << 80]))
def test_an_ipv4_address_inside_another_is_refused(inner: IPv4Address, prefix: int) -> None:
    assert kind_of(IPv6Address(prefix | int(inner)))
    assert kind_of(IPv6Address(0x2002 << 112 | int(inner) << 80 | 1)) == "embedded"  # 6to4
    assert kind_of(IPv6Address(0x20010000 << 96 | ~int(inner) & 0xFFFFFFFF)) == "embedded"  # Teredo
    for flags in (0, 0x0200):  # ISATAP
        assert kind_of(IPv6Address(0x2A00 << 112 | flags << 48 | 0x5EFE << 32 | int(inner))) == "embedded"


# -- what an operator opens --------------------------------------------------------------------------------------------

INSIDE = Guard.made(allow=["crm.corp 10.1.2.0/24,fd00::/8 443,9000", "127.0.0.1 127.0.0.1 8080", "wide.corp 0.0.0.0/0"])


@pytest.mark.parametrize(
    ("url", "answers", "category"),
    [
        ("https://crm.corp/", ["10.1.2.3"], ""),
        ("https://crm.corp:9000/", ["10.1.2.3", "fd00::1"], ""),
        ("https://crm.corp/", ["93.184.215.14"], ""),  # the outside stays allowed
        ("https://crm.corp/", ["10.1.3.3"], "address"),  # right name, other address
        ("https://crm.corp/", ["10.1.2.3", "127.0.0.1"], "address"),
        ("https://other.example.com/", ["10.1.2.3"], "address"),  # right address, other name
        ("https://10.1.2.3/", [], "address"),
        ("https://crm.corp:8443/", ["10.1.2.3"], "address"),  # usual port, but not opened inside
        ("https://other.example.com:9000/", ["93.184.215.14"], "port"),
        ("http://127.0.0.1:8080/", [], ""),
        ("http://127.0.0.1/", [], "address"),
        ("http://127.0.0.2:8080/", [], "address"),
        ("https://wide.corp/", ["10.9.9.9"], ""),
        ("https://wide.corp/", ["169.254.169.254"], "address"),  # never, however wide an opening is
        ("https://wide.corp/", ["100.100.100.200"], "address"),
        ("https://wide.corp/", ["224.0.0.1"], "address"),
        ("https://wide.corp/", ["0.0.0.0"], "address"),  # noqa: S104
    ],
)
def test_an_opening_is_by_name_and_address_and_port(url: str, answers: list[str], category: str) -> None:
    assert refused(url, *answers, guard=INSIDE) == category


@pytest.mark.parametrize(
    "text",
    [
        "",
        "crm.corp",
        "crm.corp 10.1.2.300",
        "crm.corp 10.1.2.3 0",
        "crm.corp 10.1.2.3 80 x",
        "h 10.1.2.3 99999",
        "h 10.0.0.1/8",
    ],
)
def test_an_opening_that_opens_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidFieldError):
        Opening.parse(text)


# -- at the socket -----------------------------------------------------------------------------------------------------


def test_a_socket_is_only_for_an_address_and_port_that_were_judged() -> None:
    guard = Guard()
    approval = guard.check("https://hooks.example.com/")
    with pytest.raises(DestinationRefusedError):
        guard.check_socket(approval, ("93.184.215.14", 443))  # nothing was looked up yet
    guard.answered(approval, ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])

    guard.check_socket(approval, ("93.184.215.14", 443))
    guard.check_socket(approval, ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", 443, 0, 0))
    for sockaddr in [
        ("93.184.215.15", 443),
        ("93.184.215.14", 80),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", 443, 0, 2),
    ]:
        with pytest.raises(DestinationRefusedError):
            guard.check_socket(approval, sockaddr)
    assert approval.refusal is not None


@pytest.mark.parametrize("peer", [None, ("10.0.0.5", 443), ("93.184.215.14", 80), ("93.184.215.15", 443)])
def test_a_peer_that_was_not_judged_is_hung_up_on(peer: tuple[str, int] | None) -> None:
    guard = Guard()
    approval = guard.check("https://hooks.example.com/")
    guard.answered(approval, ["93.184.215.14"])

    with pytest.raises(DestinationRefusedError):
        guard.check_peer(approval, peer, None)


def test_on_a_connection_that_is_used_again_the_peer_is_judged_anew() -> None:
    approval = Guard().check("https://hooks.example.com/")

    Guard().check_peer(approval, ("93.184.215.14", 443), ("192.168.7.7", 1))
    with pytest.raises(DestinationRefusedError):
        Guard().check_peer(approval, ("10.0.0.5", 443), None)


def test_this_machine_by_a_public_address_of_its_own_is_refused() -> None:
    approval = Guard().check("https://hooks.example.com/")

    with pytest.raises(DestinationRefusedError):
        Guard().check_peer(approval, ("93.184.215.14", 443), ("93.184.215.14", 50_000))
    assert refused("https://hooks.example.com/", OWN, guard=Guard(own=frozenset({ip_address(OWN)}))) == "address"


def test_a_refusal_tells_a_jobs_author_nothing_of_what_is_inside() -> None:
    with pytest.raises(DestinationRefusedError) as caught:
        Guard().answered(Guard().check("https://secret-host.example.com/"), ["10.77.0.1"])

    assert "secret-host" not in str(caught.value)
    assert "10.77" not in str(caught.value)
    assert "10.77.0.1" in caught.value.detail
