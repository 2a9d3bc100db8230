"""A certificate of our own for the local network, in the home folder's `certificate.pem` (0600), with its key.

Nobody vouches for it: a browser warns once, and shows the fingerprint that the server prints. It is kept, so that the
warning does not come again, and made anew when it is about to end, or when the machine has a name or address that it
does not have; the names that it had stay in it.
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

# Apple's systems take none that lives longer than 398 days.
LIFE: Final = timedelta(days=365)
RENEWED: Final = timedelta(days=30)

# Of a machine that travels; the oldest are forgotten.
MOST_NAMES: Final = 40


def server_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """For files of the user's own, and of ours. `ConfigError` where they are none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A password would be asked for on the terminal, of a server that may have none.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except FileNotFoundError:
        missing = certificate if key is None or not certificate.exists() else key
        raise ConfigError("there is no such file", where=str(missing)) from None
    except (OSError, ssl.SSLError, ValueError) as problem:
        raise ConfigError(
            f"the certificate and its key cannot be used: {problem}",
            where=str(certificate),
            guidance="--cert is a PEM file with the whole chain, --key its private key, without a password.",
        ) from None
    return context


def own_certificate(home: Path, names: Iterable[str], now: datetime | None = None) -> Path:
    """The file with certificate and key, good for these names; made or renewed where need be."""
    wanted = list(dict.fromkeys(names))
    now = now or datetime.now(UTC)
    path = make_home(home) / FILE_NAME
    old = _read(path)
    had = [] if old is None else _names(old)
    if old is not None and old.not_valid_after_utc - now > RENEWED and set(wanted) <= set(had):
        return path
    _write(path, _made([*wanted, *(name for name in had if name not in wanted)][:MOST_NAMES], now))
    return path


def fingerprint(path: Path) -> str:
    """As browsers show it: SHA-256, in pairs."""
    text = path.read_text("ascii")
    begin = text.index("-----BEGIN CERTIFICATE-----")
    whole = ssl.PEM_cert_to_DER_cert(text[begin : text.index("-----END CERTIFICATE-----") + 26].strip() + "\n")
    return hashlib.sha256(whole).digest().hex(":").upper()


def machine_addresses() -> tuple[str, ...]:
    """The addresses by which others on the network may reach this machine, the likeliest first. Nothing is sent."""
    found: dict[str, None] = {}
    # Connecting a datagram socket only asks the system by which address it would send.
    for family, far in ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            found[probe.getsockname()[0]] = None
    with contextlib.suppress(OSError):
        for *_, address in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            found[str(address[0])] = None
    return tuple(one for one in found if "%" not in one and not ipaddress.ip_address(one).is_loopback)


def machine_names() -> tuple[str, ...]:
    """What the machine is called, also as the local network's own name service has it."""
    name = socket.gethostname().lower().rstrip(".")
    return (name, f"{name.partition('.')[0]}.local") if name and name != "localhost" else ()


def _made(names: list[str], now: datetime) -> bytes:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as missing:
        raise InputError(
            "to make a certificate the package `cryptography` is needed, and it is not installed",
            guidance="Install it: pip install 'dragoman[lan]'. Or bring your own: --cert FILE --key FILE.",
        ) from missing
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Dragoman")])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # for clocks that go a little wrong
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + made.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _read(path: Path) -> x509.Certificate | None:
    """None where there is none that could be used: a new one is made then."""
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
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(one.value) for one in found]


def _write(path: Path, data: bytes) -> None:
    try:
        atomic_write(path, data)
    except OSError as problem:
        raise ConfigError(f"the certificate cannot be written: {problem.strerror}", where=str(path)) from None
