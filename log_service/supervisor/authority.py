"""The local certificate authority of ``tidelog up --secure``.

It signs the certificates of the nodes and clients of one installation. It decides how long
certificates are valid. They are renewed when a third of their validity is left. Keys are
ECDSA P-256, because a handshake with them costs a third of one with RSA. ``cryptography`` is
imported only when a certificate is made.

Invariants: a key is in a file that only its owner may read, in a directory that only its owner may
enter. A file is replaced as a whole. An existing authority is never replaced, because all its
certificates would become worthless.
"""

import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from log_service.common.errors import StorageError
from log_service.common.private_files import private_directory, replace_private

if TYPE_CHECKING:
    from cryptography import x509

AUTHORITY_DAYS, CERTIFICATE_DAYS = 3650, 397
RENEWAL_SHARE = 1 / 3
CLOCK_SKEW = timedelta(hours=1)
"""Certificates are valid from this long before their creation, because other clocks may be late."""
CERTIFICATE_FILE, KEY_FILE = "authority.pem", "authority.key"
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class LocalAuthority:
    """The authority in a directory. A missing authority is created there.

    Raises:
        StorageError: its files cannot be read or written, or only one of certificate and key
            exists.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificate_path = directory / CERTIFICATE_FILE
        make_private_directory(directory)
        present = [(directory / name).exists() for name in (CERTIFICATE_FILE, KEY_FILE)]
        if not any(present):
            self._found()
        elif not all(present):
            missing = directory / (CERTIFICATE_FILE if present[1] else KEY_FILE)
            raise StorageError(
                f"{missing} is missing: put it back, or remove {directory} to begin with a new"
                " authority"
            )

    def __repr__(self) -> str:
        return f"<LocalAuthority {self.directory}>"

    def keep(self, path: Path, name: str, hosts: Sequence[str], now: datetime) -> bool:
        """Issue a key and a certificate to ``name`` in a PEM file, if the file needs new ones.

        It does if they are missing, expire soon, or lack one of ``hosts``. Return whether they were
        issued.
        """
        present = _read_certificate(path)
        if present is not None and _is_good(present, hosts, now):
            return False
        make_private_directory(path.parent)
        write_private(path, self.issue(name, hosts, now))
        return True

    def _found(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import (  # noqa: PLC0415 - see the module's opening
            ec,
        )

        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        builder = _builder("tidelog local authority", None, key.public_key(), now, AUTHORITY_DAYS)
        certificate = _signed(_with_authority(builder), key)
        write_private(self.directory / KEY_FILE, _key_pem(key))
        write_private(self.certificate_path, _certificate_pem(certificate))

    def issue(self, name: str, hosts: Sequence[str], now: datetime) -> bytes:
        """Return a new key and certificate for ``name``, as PEM.

        With ``hosts`` it is also a server's certificate for these names.
        """
        from cryptography import x509  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - as above
            load_pem_private_key,
        )
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415 - as above

        authority = x509.load_pem_x509_certificate(self.certificate_path.read_bytes())
        authority_key = load_pem_private_key((self.directory / KEY_FILE).read_bytes(), None)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name, authority.subject, key.public_key(), now, CERTIFICATE_DAYS)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        usages = [
            ExtendedKeyUsageOID.CLIENT_AUTH,
            *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else []),
        ]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())  # type: ignore[arg-type]  # it is ours: ECDSA
        certificate = _signed(builder.add_extension(identifier, critical=False), authority_key)
        return _key_pem(key) + _certificate_pem(certificate)


def make_private_directory(path: Path) -> None:
    """Create a directory that only its owner may enter, or restrict an existing one.

    Raises:
        StorageError: the directory cannot be created or restricted.
    """
    try:
        private_directory(path)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be made or closed to others: {error.strerror}"
        ) from error


def close_to_writers(path: Path) -> None:
    """Remove the permission of other accounts to write in a directory.

    Accounts with this permission could replace private files with files of their own.

    Raises:
        StorageError: the permission cannot be removed.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & OTHERS_WRITE:
            path.chmod(mode & ~OTHERS_WRITE)
    except OSError as error:
        raise StorageError(
            f"{path} can be written by others and cannot be closed to them: {error.strerror}"
        ) from error


def write_private(path: Path, content: bytes) -> None:
    """Replace a file as a whole by one that only its owner may read.

    Raises:
        StorageError: the file cannot be written.
    """
    try:
        replace_private(path, content)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def certificate_part(pem: bytes) -> bytes:
    """Return a PEM text without the private key that comes before its certificates."""
    return pem[pem.index(b"-----BEGIN CERTIFICATE-----") :]


def end_of(path: Path) -> datetime:
    """Return the time at which the certificate in a PEM file expires.

    Raises:
        StorageError: the file has no readable certificate.
    """
    certificate = _read_certificate(path)
    if certificate is None:
        raise StorageError(
            f"{path} holds no certificate that can be read: put back the file as it was"
        )
    return certificate.not_valid_after_utc


def _read_certificate(path: Path) -> "x509.Certificate | None":
    from cryptography import x509  # noqa: PLC0415 - see the module's opening

    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return None


def _is_good(certificate: "x509.Certificate", hosts: Sequence[str], now: datetime) -> bool:
    from cryptography import x509  # noqa: PLC0415 - see the module's opening

    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    try:
        names = set(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except x509.ExtensionNotFound:
        names = set()
    return now < end - (end - begin) * RENEWAL_SHARE and names >= {
        _general_name(host) for host in hosts
    }


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509  # noqa: PLC0415 - see the module's opening

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    name: str, issuer: "x509.Name | None", public_key: Any, now: datetime, days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509  # noqa: PLC0415 - see the module's opening
    from cryptography.x509.oid import NameOID  # noqa: PLC0415 - as above

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _with_authority(builder: "x509.CertificateBuilder") -> "x509.CertificateBuilder":
    from cryptography import x509  # noqa: PLC0415 - see the module's opening

    off = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **off)
    return builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    ).add_extension(usage, critical=True)


def _signed(builder: "x509.CertificateBuilder", key: Any) -> "x509.Certificate":
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - see the module's opening

    return builder.sign(key, hashes.SHA256())


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import (  # noqa: PLC0415 - see the module's opening
        serialization,
    )

    form = serialization.PrivateFormat.PKCS8
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return pem


def _certificate_pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - see the module's opening
        Encoding,
    )

    return certificate.public_bytes(Encoding.PEM)
