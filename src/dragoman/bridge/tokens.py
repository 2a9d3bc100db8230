"""`Tokens`: who may come in. Tokens and pairing codes of a home folder, in its `tokens.json` (0600).

Only digests are kept: a token is told once, when it is made. A pairing code is good for one token, once, for a few
minutes; it is what stands in a link or a QR code, so that no token ever does. Several processes share the file: what
one makes or revokes holds in all of them from the next request on.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from dragoman.bridge.messages import Scope
from dragoman.errors import InputError
from dragoman.fileio import LockedJsonFile

FILE_NAME: Final = "tokens.json"

# By it a log's filter, and scanners for secrets, know a token when they see one.
PREFIX: Final = "dgm_"

# 256 bits, as many as the digest has: there is nothing to guess, and a plain digest is enough to keep.
TOKEN_BYTES: Final = 32
CODE_BYTES: Final = 16

# Seconds: long enough to walk to the phone, too short to be of use to who finds it later.
CODE_LIFE: Final = 600.0

# Seconds without use after which a browser's token goes: nobody revokes those of browsers that are gone.
BROWSER_LIFE: Final = 90 * 86_400.0

# Seconds between two notes of when a token was used: each writes the file.
USE_STEP: Final = 300.0

MOST_TOKENS: Final = 500
MOST_CODES: Final = 20
MOST_NAME: Final = 80


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """`browser`: it is the cookie of one, and goes when it has not been used for long."""

    id: str
    name: str
    scope: Scope
    digest: str
    created: float
    used: float | None = None
    browser: bool = False


class Code(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    scope: Scope
    expires: float


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    tokens: tuple[Token, ...] = ()
    codes: tuple[Code, ...] = ()


class Tokens:
    """Making, revoking and exchanging write the file: from a loop, call them in a thread."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = LockedJsonFile(home / FILE_NAME, Kept())
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._kept = Kept()

    def listed(self) -> tuple[Token, ...]:
        """The oldest first."""
        return self._now().tokens

    def find(self, secret: str) -> Token | None:
        """The token that this is. Takes as long for a wrong one as for any other."""
        digest = _digest(secret)
        found = None
        for token in self._now().tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return None if found is None or self._is_stale(found) else found

    def holds(self, token_id: str) -> bool:
        """Whether it is still good: for what was let in a while ago and is still there."""
        return any(token.id == token_id for token in self._now().tokens)

    def create(
        self, name: str, scope: Scope, *, browser: bool = False, token_id: str | None = None
    ) -> tuple[str, Token]:
        """A new token: itself, which is nowhere to be found again, and what is kept of it. One that has this id already
        is good no more: this one takes its place."""
        secret, token = self._new(_name(name), scope, browser=browser)
        if token_id is not None:
            token = msgspec.structs.replace(token, id=token_id)
        self._change(lambda kept: _with_token(kept, token))
        return secret, token

    def revoke(self, token_id: str) -> bool:
        """Whether there was such a token."""
        before = self.listed()
        after = self._change(
            lambda kept: msgspec.structs.replace(kept, tokens=tuple(one for one in kept.tokens if one.id != token_id))
        )
        return any(token.id == token_id for token in before) and all(token.id != token_id for token in after.tokens)

    def use_is_due(self, token: Token) -> bool:
        """Whether it is time to write down that it was used (`write_use`)."""
        return token.used is None or self._clock() - token.used >= USE_STEP

    def write_use(self, token_id: str) -> None:
        now = self._clock()

        def used(kept: Kept) -> Kept:
            tokens = (
                msgspec.structs.replace(one, used=now) if one.id == token_id and self.use_is_due(one) else one
                for one in kept.tokens
            )
            return msgspec.structs.replace(kept, tokens=tuple(tokens))

        self._change(used)

    def new_code(self, scope: Scope = "admin") -> str:
        """A pairing code, for a link."""
        code = secrets.token_urlsafe(CODE_BYTES)
        kept = Code(digest=_digest(code), scope=scope, expires=self._clock() + CODE_LIFE)
        self._change(lambda now: msgspec.structs.replace(now, codes=(*now.codes, kept)[-MOST_CODES:]))
        return code

    def exchange(self, code: str, name: str) -> tuple[str, Token] | None:
        """A browser's token for a pairing code, which is good no more; None where it was not good."""
        digest = _digest(code)
        made: list[tuple[str, Token]] = []

        def take(kept: Kept) -> Kept:
            made.clear()
            found = [one for one in kept.codes if hmac.compare_digest(one.digest, digest)]
            if not found:  # those that are too old were tidied away
                return kept
            made.append(self._new(_name(name), found[0].scope, browser=True))
            left = tuple(one for one in kept.codes if one is not found[0])
            return _with_token(msgspec.structs.replace(kept, codes=left), made[0][1])

        self._change(take)
        return made[0] if made else None

    # -- within

    def _new(self, name: str, scope: Scope, *, browser: bool) -> tuple[str, Token]:
        secret = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        now = self._clock()
        return secret, Token(
            id=secrets.token_hex(4), name=name, scope=scope, digest=_digest(secret), created=now, browser=browser
        )

    def _now(self) -> Kept:
        """What the file holds; it is read anew only when it has changed."""
        try:
            found = os.stat(self._file.path)
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:  # not there, or out of reach: reading it tells which
            seen = None
        if seen is None or seen != self._seen:
            self._kept = self._file.read()
            self._seen = seen
        return self._kept

    def _change(self, decide: Callable[[Kept], Kept]) -> Kept:
        return self._file.change(lambda kept: decide(self._tidy(kept)))

    def _tidy(self, kept: Kept) -> Kept:
        now = self._clock()
        return Kept(
            tokens=tuple(token for token in kept.tokens if not self._is_stale(token)),
            codes=tuple(code for code in kept.codes if code.expires > now),
        )

    def _is_stale(self, token: Token) -> bool:
        return token.browser and self._clock() - (token.used or token.created) > BROWSER_LIFE


def _with_token(kept: Kept, token: Token) -> Kept:
    others = tuple(one for one in kept.tokens if one.id != token.id)
    if len(others) >= MOST_TOKENS:
        raise InputError(
            f"there are {len(others)} tokens, and no more can be made",
            guidance="Revoke some: dragoman token list, dragoman token revoke ID.",
        )
    return msgspec.structs.replace(kept, tokens=(*others, token))


def _name(name: str) -> str:
    cleaned = " ".join(name.split())
    if not cleaned or not cleaned.isprintable() or len(cleaned) > MOST_NAME:
        raise InputError(
            "a token's name is a few printable words, up to 80 characters", guidance="Name it for what will use it."
        )
    return cleaned


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
