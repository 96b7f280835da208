"""TLS: certificates are always checked; a certificate for localhost can be made for development."""

from __future__ import annotations

import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lace import b64a
from lace.crypto.native import digest
from lace.drafts import write_file
from lace.errors import Code, TransportError
from lace.extras import require
from lace.limits import FIXED

_DEV_DAYS: Final = 90
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Where a server's certificate (with its chain) and its key are."""

    chain: Path
    """The file of the certificate and its chain, as PEM."""
    key: Path
    """The file of its private key, as PEM."""


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """Return how a server encrypts."""
    _check_private(certificate.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate.chain, certificate.key)
    except (OSError, ssl.SSLError) as error:
        raise TransportError(
            f"the certificate {certificate.chain} with {certificate.key} cannot be used: "
            f"{getattr(error, 'reason', None) or error.strerror or error}",
            code=Code.TRANSPORT_TLS,
        ) from None
    return context


def client_context(trust: Path | None = None) -> ssl.SSLContext:
    """Return how a client encrypts: name and chain are checked, against one more root if given."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust is not None:
        try:
            context.load_verify_locations(trust)
        except (OSError, ssl.SSLError) as error:
            raise TransportError(
                f"{trust} holds no certificate to trust: {error.strerror or error}",
                code=Code.TRANSPORT_TLS,
            ) from None
    return context


def channel_of(certificate: bytes) -> str:
    """Return what tells a channel apart for both its ends: the digest of the server's certificate.

    Python offers no exporter of TLS 1.3, which would tell two channels of one server apart too.
    """
    return b64a.encode(digest(certificate))


def certificate_channel(chain: Path) -> str:
    """Return the same for a file that begins with the certificate, in PEM."""
    try:
        with chain.open("rb") as file:
            text = file.read(FIXED.certificate_bytes).decode("ascii", "replace")
        begin = text.index(_BEGIN)
        return channel_of(ssl.PEM_cert_to_DER_cert(text[begin : text.index(_END, begin)] + _END))
    except (OSError, ValueError) as error:
        raise TransportError(
            f"{chain} holds no certificate: {getattr(error, 'strerror', None) or error}",
            code=Code.TRANSPORT_TLS,
        ) from None


def development_certificate(folder: Path) -> Certificate:
    """Return a certificate for localhost, made in ``folder`` unless one is there already.

    It is good for this machine and for 90 days; clients must be told to trust it.
    """
    made = Certificate(chain=folder / "localhost.pem", key=folder / "localhost.key")
    for path in (made.chain, made.key):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise TransportError(
                f"{path} is no file of its own: remove it, or choose another folder",
                code=Code.TRANSPORT_TLS,
            )
    if not (made.chain.exists() and made.key.exists()):
        chain, key = _make()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_file(made.key, key, overwrite=True, mode=0o600)
            write_file(made.chain, chain, overwrite=True, mode=0o644)
        except OSError as error:
            raise TransportError(
                f"cannot write into {folder}: {error.strerror}", code=Code.TRANSPORT_TLS
            ) from None
    _check_private(made.key)
    return made


def _check_private(key: Path) -> None:
    """Refuse the key of a certificate that everybody on this machine can read."""
    try:
        mode = key.stat().st_mode
    except OSError:
        return  # whoever reads it says what is wrong
    if os.name == "posix" and mode & stat.S_IRWXO:
        raise TransportError(
            f"everybody on this machine can read {key}, or write it: run chmod 600 {key}",
            code=Code.TRANSPORT_TLS,
        )


def _make() -> tuple[bytes, bytes]:
    require("devcert", "making a certificate")
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lace development: localhost")])
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ip_address("127.0.0.1")),
        x509.IPAddress(ip_address("::1")),
    ]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=_DEV_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # It vouches for itself and for nothing else, whoever trusts it.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=False, crl_sign=False,
                content_commitment=False, key_encipherment=False, data_encipherment=False,
                key_agreement=False, encipher_only=False, decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
