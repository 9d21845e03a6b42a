"""A certificate authority for one test run."""

import ssl
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

YEAR = timedelta(days=365)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Signs certificates for servers of tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._count = 0

    @cached_property
    def file(self) -> Path:
        """The authority's own certificate, as a client is told to trust it."""
        path = self._folder / "ca.pem"
        path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        return path

    @cached_property
    def _certificate(self) -> x509.Certificate:
        return self._signed("tests' authority", self._key.public_key(), [], datetime.now(UTC), is_authority=True)

    def server(self, *hosts: str, expired: bool = False) -> ssl.SSLContext:
        """What a server for *hosts* shows."""
        key = ec.generate_private_key(ec.SECP256R1())
        begin = datetime.now(UTC) - (2 * YEAR if expired else timedelta(hours=1))
        certificate = self._signed(hosts[0], key.public_key(), list(hosts), begin)
        self._count += 1
        path = self._folder / f"server-{self._count}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        hosts: list[str],
        begin: datetime,
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        names = [x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts]
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name("tests' authority"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin - timedelta(hours=1))
            .not_valid_after(begin + YEAR)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())
