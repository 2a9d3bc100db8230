"""`Tokens`: tokens and pairing codes of a home folder, in its `tokens.json` (0600).

Only digests are stored: the secret of a token is shown once, when it is created. A pairing code can be exchanged for
one token, once, for a few minutes; links and QR codes contain a code, so that none ever contains a token. Several
processes share the file: a token that one creates or revokes is valid or invalid in all of them from the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from dragoman.clock import SYSTEM_CLOCK
from dragoman.errors import ConfigError, InputError
from dragoman.fileio import LockedJsonFile
from dragoman.protocol.messages import Scope

FILE_NAME: Final = "tokens.json"

# The log's filter, and scanners for secrets, recognise a token by it.
TOKEN_PREFIX: Final = "dgm_"  # noqa: S105

# 256 bits, as many as the digest has: there is nothing to guess, and a plain digest is enough to store.
TOKEN_BYTES: Final = 32
CODE_BYTES: Final = 16

# Long enough to walk to the phone, too short to be useful to someone who finds it later.
CODE_LIFE_S: Final = 600.0

# Time without use after which a browser's token expires: nobody revokes the tokens of browsers that are gone.
BROWSER_TOKEN_LIFE_S: Final = 90 * 86_400.0

# Time between two updates of a token's last use: each writes the file.
USE_UPDATE_S: Final = 300.0

MAX_TOKENS: Final = 500
MAX_CODES: Final = 20
MAX_NAME_CHARS: Final = 80


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token. `browser`: it is the cookie of a browser, and expires when it is not used for long."""

    id: str
    name: str
    scope: Scope
    digest: str
    created: float
    used: float | None = None
    browser: bool = False


class PairingCode(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    scope: Scope
    expires: float


class TokenFile(msgspec.Struct, frozen=True, kw_only=True):
    tokens: tuple[Token, ...] = ()
    codes: tuple[PairingCode, ...] = ()


class Tokens:
    """The tokens of a home folder. Methods that create, revoke or exchange write the file: call them in a thread."""

    def __init__(self, home: Path, clock: Callable[[], float] = SYSTEM_CLOCK.time) -> None:
        self._file = LockedJsonFile(home / FILE_NAME, TokenFile())
        self._clock = clock
        # Version of the file (inode, time, size) and its content. Threads read it too: both are replaced at once.
        self._cached: tuple[tuple[int, int, int] | None, TokenFile] = (None, TokenFile())

    def all(self) -> tuple[Token, ...]:
        """All tokens, oldest first."""
        return self._current().tokens

    def find(self, secret: str) -> Token | None:
        """The token with this secret. Takes the same time for a wrong secret."""
        digest = _digest(secret)
        match = None
        for token in self._current().tokens:
            if hmac.compare_digest(token.digest, digest):
                match = token
        return None if match is None or self._has_expired(match) else match

    def has(self, token_id: str, digest: str, scope: Scope) -> bool:
        """Return whether this token still exists, with this scope. False where the file is unreadable.

        The id alone does not tell: a new token may replace one under the same id.
        """
        try:
            return any(
                (token.id, token.digest, token.scope) == (token_id, digest, scope) for token in self._current().tokens
            )
        except ConfigError:
            return False

    def create(
        self, name: str, scope: Scope, *, browser: bool = False, token_id: str | None = None
    ) -> tuple[str, Token]:
        """Create a token. Return its secret, which is not stored, and the token. It replaces one with the same id."""
        secret, token = self._new(_clean_name(name), scope, browser=browser)
        if token_id is not None:
            token = msgspec.structs.replace(token, id=token_id)
        self._change(lambda content: _with_token(content, token))
        return secret, token

    def revoke(self, token_id: str) -> bool:
        """Revoke a token. Return False where there is none with this id."""
        before = self.all()
        after = self._change(
            lambda content: msgspec.structs.replace(
                content, tokens=tuple(token for token in content.tokens if token.id != token_id)
            )
        )
        return any(token.id == token_id for token in before) and all(token.id != token_id for token in after.tokens)

    def use_is_due(self, token: Token) -> bool:
        """Return whether it is time to store the token's last use (`write_use`)."""
        return token.used is None or self._clock() - token.used >= USE_UPDATE_S

    def write_use(self, token_id: str) -> None:
        now = self._clock()

        def with_use(content: TokenFile) -> TokenFile:
            tokens = (
                msgspec.structs.replace(token, used=now) if token.id == token_id and self.use_is_due(token) else token
                for token in content.tokens
            )
            return msgspec.structs.replace(content, tokens=tuple(tokens))

        self._change(with_use)

    def new_code(self, scope: Scope = "admin") -> str:
        """Create a pairing code, for a link."""
        code = secrets.token_urlsafe(CODE_BYTES)
        stored = PairingCode(digest=_digest(code), scope=scope, expires=self._clock() + CODE_LIFE_S)
        self._change(lambda content: msgspec.structs.replace(content, codes=(*content.codes, stored)[-MAX_CODES:]))
        return code

    def exchange(self, code: str, name: str) -> tuple[str, Token] | None:
        """Exchange a pairing code for a browser's token; None where the code is invalid. A code is valid once."""
        digest = _digest(code)
        created: list[tuple[str, Token]] = []

        def take(content: TokenFile) -> TokenFile:
            created.clear()
            matches = [stored for stored in content.codes if hmac.compare_digest(stored.digest, digest)]
            if not matches:  # expired codes were removed before
                return content
            created.append(self._new(_clean_name(name), matches[0].scope, browser=True))
            rest = tuple(stored for stored in content.codes if stored is not matches[0])
            return _with_token(msgspec.structs.replace(content, codes=rest), created[0][1])

        self._change(take)
        return created[0] if created else None

    # -- the file

    def _new(self, name: str, scope: Scope, *, browser: bool) -> tuple[str, Token]:
        secret = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        now = self._clock()
        return secret, Token(
            id=secrets.token_hex(4), name=name, scope=scope, digest=_digest(secret), created=now, browser=browser
        )

    def _current(self) -> TokenFile:
        """The content of the file, which is only read again when it has changed."""
        try:
            stat = os.stat(self._file.path)
            version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        except OSError:  # missing or unreadable: reading it tells which
            version = None
        cached_version, content = self._cached
        if version is None or version != cached_version:
            content = self._file.read()
            self._cached = (version, content)
        return content

    def _change(self, decide: Callable[[TokenFile], TokenFile]) -> TokenFile:
        return self._file.change(lambda content: decide(self._without_expired(content)))

    def _without_expired(self, content: TokenFile) -> TokenFile:
        now = self._clock()
        return TokenFile(
            tokens=tuple(token for token in content.tokens if not self._has_expired(token)),
            # One that would be valid for longer was made before the clock was set back.
            codes=tuple(code for code in content.codes if now < code.expires <= now + CODE_LIFE_S),
        )

    def _has_expired(self, token: Token) -> bool:
        return token.browser and self._clock() - (token.used or token.created) > BROWSER_TOKEN_LIFE_S


def _with_token(content: TokenFile, token: Token) -> TokenFile:
    others = tuple(other for other in content.tokens if other.id != token.id)
    if len(others) >= MAX_TOKENS:
        raise InputError(
            f"there are already {len(others)} tokens",
            guidance="Revoke some: dragoman token list, dragoman token revoke ID.",
        )
    return msgspec.structs.replace(content, tokens=(*others, token))


def _clean_name(name: str) -> str:
    cleaned = " ".join(name.split())
    if not cleaned or not cleaned.isprintable() or len(cleaned) > MAX_NAME_CHARS:
        raise InputError(
            f"a token's name is a few printable words, up to {MAX_NAME_CHARS} characters",
            guidance="Name it after the program or device that will use it.",
        )
    return cleaned


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
