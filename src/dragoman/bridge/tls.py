"""A self-signed certificate for the local network, in the home folder's `certificate.pem` (0600), with its key.

A browser warns once and shows the fingerprint that the server prints. The certificate is reused, so that the warning
does not come again, and renewed before it expires, or when the machine has a new name or address; old names stay in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.config import make_home
from dragoman.errors import ConfigError, InputError
from dragoman.fileio import atomic_write

if TYPE_CHECKING:
    from cryptography import x509

FILE_NAME: Final = "certificate.pem"

# Apple's systems accept none that is valid for more than 398 days.
VALIDITY: Final = timedelta(days=365)
RENEW_BEFORE: Final = timedelta(days=30)

# Names and addresses of a machine that travels; the oldest are dropped.
MAX_NAMES: Final = 40


def server_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """The TLS context for a certificate and its key; a `ConfigError` where they cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # OpenSSL would ask for a password on the terminal, which a server may not have.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except FileNotFoundError:
        missing = certificate if key is None or not certificate.exists() else key
        raise ConfigError("there is no such file", where=str(missing)) from None
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"the certificate and its key cannot be used: {error}",
            where=str(certificate),
            guidance="--cert is a PEM file with the whole chain, --key its private key, without a password.",
        ) from None
    return context


def generated_certificate(home: Path, names: Iterable[str], now: datetime | None = None) -> Path:
    """The file with a certificate for these names and its key; created or renewed where necessary."""
    current_names = list(dict.fromkeys(names))
    now = now or datetime.now(UTC)
    path = make_home(home) / FILE_NAME
    old = _read(path)
    old_names = [] if old is None else _names(old)
    if old is not None and old.not_valid_after_utc - now > RENEW_BEFORE and set(current_names) <= set(old_names):
        return path
    added_names = [name for name in old_names if name not in current_names]
    _write(path, _generate([*current_names, *added_names][:MAX_NAMES], now))
    return path


def fingerprint(path: Path) -> str:
    """The SHA-256 fingerprint in the form that browsers show."""
    text = path.read_text("ascii")
    begin = text.index("-----BEGIN CERTIFICATE-----")
    der = ssl.PEM_cert_to_DER_cert(text[begin : text.index("-----END CERTIFICATE-----") + 26].strip() + "\n")
    return hashlib.sha256(der).digest().hex(":").upper()


def machine_addresses() -> tuple[str, ...]:
    """The addresses by which other machines may reach this one, the likeliest first. Nothing is sent."""
    addresses: dict[str, None] = {}
    # Connecting a datagram socket only asks the system from which address it would send.
    for family, far in ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            addresses[probe.getsockname()[0]] = None
    with contextlib.suppress(OSError):
        for *_, address in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            addresses[str(address[0])] = None
    return tuple(
        address for address in addresses if "%" not in address and not ipaddress.ip_address(address).is_loopback
    )


def machine_names() -> tuple[str, ...]:
    """The machine's name, and its name in the local network (mDNS)."""
    name = socket.gethostname().lower().rstrip(".")
    return (name, f"{name.partition('.')[0]}.local") if name and name != "localhost" else ()


def _generate(names: list[str], now: datetime) -> bytes:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as missing:
        raise InputError(
            "the package `cryptography` is not installed; it is needed to generate a certificate",
            guidance="Install it: pip install 'dragoman[lan]'. Or use your own certificate: --cert FILE --key FILE.",
        ) from missing
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Dragoman")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # for clocks that are a little wrong
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _read(path: Path) -> x509.Certificate | None:
    """The certificate in a file; None where there is no usable one."""
    try:
        from cryptography import x509

        data = path.read_bytes()
        server_context(path, None)
        return x509.load_pem_x509_certificate(data)
    except (ImportError, OSError, ValueError, ConfigError):
        return None


def _names(certificate: x509.Certificate) -> list[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names]


def _write(path: Path, data: bytes) -> None:
    try:
        atomic_write(path, data)
    except OSError as error:
        raise ConfigError(f"the certificate cannot be written: {error.strerror}", where=str(path)) from None
