"""Who asks: a bearer token, a browser's session, or a user whom a trusted proxy names."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ...domain import storable
from ...domain.errors import InvalidFieldError
from ...eventstore import tokens
from ...eventstore.clock import micros
from .errors import CrossSiteError, ScopeMissingError, TokenNotFoundError, UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aiohttp import web

    from ...eventstore.store import JobRow
    from ...workers.commands.log import JobLog

SCOPES: Final = {
    "jobs:read": "see jobs, their events, units and reasons",
    "jobs:write": "submit jobs",
    "jobs:control": "pause, resume, cancel and retry jobs",
    "queues:control": "pause, resume and limit queues; open, close and limit gates",
    "workers": "claim jobs and work on them",
    "feed:read": "follow the log",
    "audit": "verify and export the log",
    "projections:admin": "rebuild and compare what is derived from the log",
    "metrics": "read the metrics",
    "admin": "everything",
}
#: About all tenants: no token that is bound to one may have them.
WHOLE: Final = frozenset({"queues:control", "workers", "audit", "projections:admin", "metrics", "admin"})
COOKIE: Final = "__Host-joblog"
SESSION: Final = timedelta(hours=12)
SIGN_IN: Final = timedelta(minutes=10)
CACHED_SECONDS: Final = 1.0  #: for so long a revoked token may still read; a command is checked anew
_USED_EVERY: Final = 60_000_000  #: microseconds between two notes of a token's use
_CACHE: Final = 10_000
_TOKEN: Final = re.compile(r"jl_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, and what they may."""

    name: str
    scopes: frozenset[str]
    tenant: str = ""  #: bound to it
    owner: str = ""  #: bound to them
    via: str = "token"
    token_id: str = ""

    @property
    def is_bound(self) -> bool:
        """Whether it sees a part of the log only."""
        return bool(self.tenant or self.owner)

    def has(self, scope: str) -> bool:
        """Whether it may."""
        return not scope or scope in self.scopes or "admin" in self.scopes

    def sees(self, row: JobRow) -> bool:
        """Whether a job is theirs to see: the one place that decides."""
        return self.tenant in {"", row["tenant"]} and self.owner in {"", row.get("owner", "")}

    def check(self, scope: str, *, whole: bool = False) -> None:
        """Refuse who lacks *scope*, or is bound where the answer is about the *whole* log."""
        if not self.has(scope):
            raise ScopeMissingError(f"this needs the scope {scope}, which {self.name} does not have")
        if whole and self.is_bound:
            raise ScopeMissingError("this is about all tenants; a token that is bound to one can't ask it")


@dataclass(frozen=True, slots=True)
class Proxies:
    """Peers that may name the user: nobody by default."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"

    @classmethod
    def of(cls, texts: Iterable[str]) -> Proxies:
        """From addresses or networks."""
        try:
            return cls(tuple(ipaddress.ip_network(text, strict=False) for text in texts))
        except ValueError as error:
            raise InvalidFieldError("trust_proxy", str(error), "give addresses or networks") from None

    def trusts(self, address: str) -> bool:
        """Whether a peer is one of them."""
        if not self.networks:
            return False
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self.networks)


def minted(
    purpose: str = "token", *, name: str, scopes: Iterable[str], now: int, key: str = "", **more: Any
) -> tuple[str, tokens.TokenRow]:
    """A new secret, shown once, and the row that is kept of it; under the same *key* of a request it has the same id."""
    wanted = sorted(set(scopes))
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise InvalidFieldError("scopes", f"{unknown[0]!r} is none", f"use some of {', '.join(SCOPES)}")
    if not wanted:
        raise InvalidFieldError("scopes", "none", f"give some of {', '.join(SCOPES)}")
    storable.name(name, "name")
    if (more.get("tenant") or more.get("owner")) and (whole := WHOLE & set(wanted)):
        raise InvalidFieldError(
            "scopes", f"{min(whole)} is about all tenants", "give it to a token without --tenant and --owner"
        )
    token_id = _hash(f"made for {key}")[:16] if key else secrets.token_hex(8)
    secret = secrets.token_urlsafe(32)
    row = tokens.TokenRow(token_id, name, purpose, _hash(secret), " ".join(wanted), created_at=now, **more)
    return f"jl_{token_id}_{secret}", row


def _hash(secret: str) -> str:
    # 256 random bits: a fast hash is right.
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(slots=True)
class Auth:
    """Tells who asks.  ``cached`` never asks the store, ``look_up`` does."""

    log: JobLog
    proxies: Proxies = field(default_factory=Proxies)
    _known: dict[tuple[str, str], tuple[Principal, float]] = field(default_factory=dict)  #: by purpose and hash

    def cached(self, request: web.Request) -> Principal | None:
        """Who asks, if that was looked up just now."""
        credential = credential_of(request.headers, request.cookies)
        if not credential:
            return self._of_proxy(request)
        known = self._known.get((_purpose(request), _hash(credential)))
        return known[0] if known is not None and self.log.clock.monotonic() < known[1] else None

    def look_up(self, request: web.Request) -> Principal:
        """Who asks.

        Raises:
            UnauthorizedError: nobody we know.
        """
        credential = credential_of(request.headers, request.cookies)
        if not credential:
            raise UnauthorizedError("send a token: Authorization: Bearer jl_…; `joblog tokens create` makes one")
        principal = self.of_token(credential, _purpose(request))
        if len(self._known) >= _CACHE:
            self._known.clear()
        self._known[_purpose(request), _hash(credential)] = (principal, self.log.clock.monotonic() + CACHED_SECONDS)
        return principal

    def of_token(self, credential: str, purpose: str) -> Principal:
        """Who holds *credential*; the same answer for all that opens nothing."""
        found = _TOKEN.fullmatch(credential)
        row = tokens.find(self.log.store, found[1]) if found else None
        good = hmac.compare_digest(_hash(found[2]) if found else "", row.hash if row else "-")
        now = self.log.store.now()
        if row is None or not good or row.purpose != purpose or not row.is_live(now):
            raise UnauthorizedError("this token opens nothing: mistyped, expired or revoked")
        if not self.log.store.read_only and now - (row.used_at or 0) > _USED_EVERY:  # type: ignore[attr-defined]
            tokens.used(self.log.store, row.id, now)
        return Principal(row.name, frozenset(row.scopes.split()), row.tenant, row.owner, purpose, row.id)

    def _of_proxy(self, request: web.Request) -> Principal | None:
        """The user whom a trusted peer names; from anybody else the header means nothing."""
        user = request.headers.get(self.proxies.user_header, "")
        if not user or not self.proxies.trusts(peer_of(request)):
            return None
        groups = request.headers.get(self.proxies.groups_header, "").split(",")
        granted = {group.strip().removeprefix("joblog:") for group in groups if group.strip().startswith("joblog:")}
        return Principal(storable.name(user, "user"), frozenset(granted & SCOPES.keys()) | {"jobs:read"}, via="proxy")

    def may(self, principal: Principal, scope: str) -> bool:
        """Whether they still may, asked anew right before an effect (CTL-07)."""
        return self.may_all([(principal, scope)])[principal, scope]

    def may_all(self, asked: Sequence[tuple[Principal, str]]) -> dict[tuple[Principal, str], bool]:
        """The same of many, in one question."""
        answers = {(who, scope): who.has(scope) for who, scope in asked if who.via == "proxy"}
        kept = [(who, scope) for who, scope in asked if who.via != "proxy"]
        if kept:
            still = tokens.may_all(self.log.store, [(who.token_id, scope) for who, scope in kept])
            answers |= {(who, scope): still[who.token_id, scope] for who, scope in kept}
        return answers

    # -- browsers ----------------------------------------------------------------------------------------------------

    def sign_in_link(self, name: str, scopes: Iterable[str] = ("admin",)) -> str:
        """The code of a link that opens one session, once."""
        now = self.log.store.now()
        ends = now + SIGN_IN // timedelta(microseconds=1)
        code, row = minted("sign-in", name=name, scopes=scopes, now=now, expires_at=ends)
        tokens.add(self.log.store, row)
        return code

    def sign_in(self, code: str) -> str:
        """Spend a link's code; the secret of the new session."""
        holder = self.of_token(code, "sign-in")
        if not tokens.spend(self.log.store, holder.token_id):
            raise UnauthorizedError("this link was used before; get a new one")
        now = self.log.store.now()
        tokens.sweep(self.log.store, now)
        ends = now + SESSION // timedelta(microseconds=1)
        secret, row = minted("session", name=holder.name, scopes=holder.scopes, now=now, expires_at=ends)
        tokens.add(self.log.store, row)
        return secret

    def sign_out(self, principal: Principal) -> None:
        """End a session; a token ends by `joblog tokens revoke` alone."""
        if principal.via != "session":
            raise UnauthorizedError("only a browser's session signs out; a token ends by `joblog tokens revoke`")
        tokens.revoke(self.log.store, principal.token_id, self.log.store.now())
        self._known.clear()


def _purpose(request: web.Request) -> str:
    """What the credential of a request must have been made for: a cookie opens nothing as a bearer token, nor the reverse."""
    return "token" if "Authorization" in request.headers else "session"


def credential_of(headers: Mapping[str, str], cookies: Mapping[str, str]) -> str:
    """The token that a request carries; only ever in a header."""
    given = headers.get("Authorization", "")
    if given:
        kind, _, value = given.partition(" ")
        return value.strip() if kind.lower() == "bearer" and value.strip() else given
    return cookies.get(COOKIE, "")


def check_site(request: web.Request, principal: Principal) -> None:
    """Refuse a command that another site's page made a browser send (fetch metadata, else Origin)."""
    if request.method in _SAFE or principal.via == "token":
        return
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None:
        good = site == "same-origin"
    elif origin is not None:
        good = origin.partition("://")[2] == request.host
    else:
        good = principal.via == "proxy"  # no browser
    if not good:
        raise CrossSiteError("this came from another site's page; nothing was done")


def peer_of(request: web.Request) -> str:
    """The address at the other end of the connection."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return str(peer[0]) if isinstance(peer, tuple) else ""


def address_of(request: web.Request, proxies: Proxies) -> str:
    """The client's address: behind trusted proxies the nearest one that is no proxy."""
    address = peer_of(request)
    if not proxies.trusts(address):
        return address
    for hop in reversed(request.headers.get("X-Forwarded-For", "").split(",")):
        text = hop.strip()
        try:
            ipaddress.ip_address(text)
        except ValueError:
            break
        address = text
        if not proxies.trusts(text):
            break
    return address


def revoke(log: JobLog, which: str) -> tokens.TokenRow:
    """End a token, given by id or name."""
    rows = [row for row in tokens.listed(log.store, "token") if which in {row.id, row.name} and row.revoked_at is None]
    if len(rows) != 1 or not tokens.revoke(log.store, rows[0].id, micros(log.now())):
        raise TokenNotFoundError(
            f"no token {which[:60]!r} still stands, or several of that name; see `joblog tokens list`"
        )
    return rows[0]
