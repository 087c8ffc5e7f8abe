"""A certificate authority for tests, whose files clients and servers of all languages read.

Keys are ECDSA P-256, because signing one takes a fraction of a millisecond. Every certificate is
valid from a day before it is issued.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PASSWORD = "changeit"
STORE_BYTES = 1 << 14
"""More bytes than a store of these tests has."""
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A certificate with its key, in files and as text.

    Stores in PKCS12 have the password ``PASSWORD``.
    """

    certificate: x509.Certificate
    keystore: Path
    """PEM: the key (PKCS#8) and then the chain, as Apache Kafka, Python and Java read it."""
    key: Path
    """PEM: the key alone."""
    chain: Path
    """PEM: the certificate and those above it, without the root."""
    keystore_p12: Path
    truststore: Path
    """PEM: the root's certificate."""
    truststore_p12: Path
    """PKCS12 with the mark that Java wants on certificates it trusts."""

    @property
    def key_text(self) -> str:
        """Return the key, PEM."""
        return self.key.read_text()

    @property
    def chain_text(self) -> str:
        """Return the chain, PEM."""
        return self.chain.read_text()

    @property
    def truststore_text(self) -> str:
        """Return the root, PEM."""
        return self.truststore.read_text()

    def properties(self, prefix: str = "") -> dict[str, str]:
        """Return Kafka's keys of a listener or a client with this certificate.

        It shows the certificate and trusts the authority. Files are PEM.
        """
        named = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
        }
        return {prefix + name: text for name, text in named.items()}


def fill(path: Path, origin: Path) -> None:
    """Copy a PEM store into a file in place.

    All filled files have the same length and the same age.
    """
    path.write_bytes(origin.read_bytes().ljust(STORE_BYTES, b"\n"))
    os.utime(path, ns=(1, 1))


class Authority:
    """A root that signs. ``directory`` receives the files. Two authorities need two directories."""

    def __init__(
        self, directory: Path, name: str = "Test Authority", above: "Authority | None" = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._issued_count = 0
        subject = self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = subject if above is None else above.subject
        builder = _builder(subject, issuer, self._key.public_key(), _now() + timedelta(days=3650))
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
        self.certificate = builder.sign(self._key if above is None else above._key, hashes.SHA256())
        self.truststore = self._write("truststore.pem", _pem(self.certificate))
        bundle = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        self.truststore_p12 = self._write(
            "truststore.p12", pkcs12.serialize_java_truststore([bundle], _encryption(PASSWORD))
        )

    def authority_below(self, directory: Path) -> "Authority":
        """Return an authority that this one has signed."""
        return Authority(directory, "Authority Below", self)

    def issue(
        self,
        common_name: str,
        sans: Sequence[str] = LOOPBACK,
        *,
        subject: x509.Name | None = None,
        lasts: timedelta = timedelta(days=365),
        key_type: Literal["ec", "rsa"] = "ec",
        key_password: str | None = None,
    ) -> Issued:
        """Issue a certificate for ``CN=common_name``, or for ``subject``.

        ``sans`` are host names and addresses, none for a client. ``lasts`` may be negative: the
        certificate has expired then. With ``key_password`` the PEM key is encrypted with it.
        """
        key = (
            rsa.generate_private_key(65_537, 2_048)
            if key_type == "rsa"
            else ec.generate_private_key(ec.SECP256R1())
        )
        name = (
            subject
            if subject is not None
            else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        )
        builder = _builder(name, self.certificate.subject, key.public_key(), _now() + lasts)
        usage = x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        )
        builder = builder.add_extension(usage, critical=False)
        own_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(own_key, critical=False)
        if sans:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(san) for san in sans]), critical=False
            )
        return self._stored(
            common_name, builder.sign(self._key, hashes.SHA256()), key, key_password
        )

    def _stored(
        self, name: str, certificate: x509.Certificate, key: PrivateKey, key_password: str | None
    ) -> Issued:
        self._issued_count += 1
        stem = f"{self._issued_count}-{''.join(letter if letter.isalnum() else '-' for letter in name)}"
        encryption = (
            serialization.NoEncryption() if key_password is None else _encryption(key_password)
        )
        key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
        bundle = pkcs12.serialize_key_and_certificates(
            b"node", key, certificate, [self.certificate], _encryption(PASSWORD)
        )
        return Issued(
            certificate=certificate,
            keystore=self._write(f"{stem}.pem", key_pem + _pem(certificate)),
            key=self._write(f"{stem}.key", key_pem),
            chain=self._write(f"{stem}.crt", _pem(certificate)),
            keystore_p12=self._write(f"{stem}.p12", bundle),
            truststore=self.truststore,
            truststore_p12=self.truststore_p12,
        )

    def _write(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: object, ends: datetime
) -> x509.CertificateBuilder:
    assert isinstance(public_key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(_now(), ends) - timedelta(days=1))
        .not_valid_after(ends)
    )
    return builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False
    )


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _encryption(password: str) -> serialization.KeySerializationEncryption:
    return serialization.BestAvailableEncryption(password.encode())


def _now() -> datetime:
    return datetime.now(UTC)
