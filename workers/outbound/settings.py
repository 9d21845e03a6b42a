"""The outbound client as an operator sets it up: ``JOBLOG_OUTBOUND_*``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...domain import withheld
from .client import OutboundClient
from .credential import Credential
from .guard import Guard
from .secrets import Secrets
from .security import SecurityStream, logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..commands.log import JobLog

ALLOW: Final = "JOBLOG_OUTBOUND_ALLOW"  #: openings, see ``Opening.parse``, with ; between
OWN: Final = "JOBLOG_OUTBOUND_OWN"  #: addresses of this service that look public, with , between
CA_FILE: Final = "JOBLOG_OUTBOUND_CA"  #: a private authority, besides the system's


def client_for(log: JobLog, environ: Mapping[str, str], **options: Any) -> OutboundClient:
    """A client with the rules of *environ*; what it opens inside is said in the log of the process.

    *options*: of ``OutboundClient``, and ``actor``: who is named beside a refusal, such as ``run.job_id``.

    Raises:
        InvalidFieldError: a setting that can't be read.
    """
    guard = Guard.made(allow=_parts(environ, ALLOW, ";"), own=_parts(environ, OWN, ","))
    ca_file = Path(environ[CA_FILE]) if environ.get(CA_FILE) else None
    for opening in guard.openings:
        addresses, ports = ", ".join(map(str, opening.networks)), ", ".join(map(str, sorted(opening.ports)))
        logger.info("opened inside: %s at %s, ports %s", opening.host, addresses, ports)
    options.setdefault("report", SecurityStream(log, options.pop("actor", "")))
    return OutboundClient(guard=guard, now=log.now, ca_file=ca_file, scrub=withheld.scrub, **options)


def credential_for(
    log: JobLog, environ: Mapping[str, str], reference: str, *hosts: str, tenant: str = "default", **header: str
) -> Credential:
    """The credential behind *reference*, for a provider's *hosts*; *header*: ``header`` and ``prefix``."""
    secrets = Secrets(environ, log.store)

    async def reveal(text: str) -> str:
        return secrets.resolve(text, tenant=tenant).reveal()

    return Credential(reference, hosts, reveal, **header)


def _parts(environ: Mapping[str, str], name: str, between: str) -> list[str]:
    return [part.strip() for part in environ.get(name, "").split(between) if part.strip()]
