"""Certificates for development, and keys that are nobody else's."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path

import pytest

from lace.errors import Code, TransportError
from lace.transport.tls import (
    Certificate,
    certificate_channel,
    channel_of,
    development_certificate,
    server_context,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links are of POSIX")


def refused(folder: Path) -> str:
    with pytest.raises(TransportError) as caught:
        development_certificate(folder)
    assert caught.value.code is Code.TRANSPORT_TLS
    return caught.value.message


def test_a_development_certificate_is_no_authority(tmp_path: Path) -> None:
    from cryptography import x509

    made = development_certificate(tmp_path / "dev")
    assert stat.S_IMODE(made.key.stat().st_mode) == 0o600
    server_context(made)
    found = x509.load_pem_x509_certificate(made.chain.read_bytes())
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not found.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert development_certificate(tmp_path / "dev") == made  # the same again
    der = ssl.PEM_cert_to_DER_cert(made.chain.read_text())
    assert certificate_channel(made.chain) == channel_of(der)


def test_what_links_lead_to_is_never_written(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "localhost.key").symlink_to(precious)
    assert "no file of its own" in refused(shared)
    assert precious.read_text() == "precious"


def test_a_file_that_was_laid_there_keeps_neither_its_mode_nor_its_readers(tmp_path: Path) -> None:
    laid = tmp_path / "localhost.key"
    laid.touch()
    laid.chmod(0o666)
    with laid.open("rb") as waiting:  # whoever laid it there has it open
        made = development_certificate(tmp_path)
        assert stat.S_IMODE(made.key.stat().st_mode) == 0o600
        assert waiting.read() == b""
    made.key.chmod(0o644)
    assert "everybody on this machine" in refused(tmp_path)


def test_the_key_of_a_certificate_is_not_for_everybody(tmp_path: Path) -> None:
    made = development_certificate(tmp_path)
    made.key.chmod(0o640)
    server_context(made)  # a group may be meant
    made.key.chmod(0o604)
    with pytest.raises(TransportError, match="chmod 600"):
        server_context(made)
    with pytest.raises(TransportError, match="holds no certificate"):
        certificate_channel(made.key)
    with pytest.raises(TransportError, match="cannot be used"):
        server_context(Certificate(chain=made.chain, key=tmp_path / "missing"))
