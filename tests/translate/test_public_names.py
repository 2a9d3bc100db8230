"""The names of `dragoman.translate`: each is loaded when it is first used."""

from __future__ import annotations

import pytest

from dragoman import translate


def test_every_public_name_is_there() -> None:
    for name in translate._MODULES:
        assert getattr(translate, name) is not None
    assert "codex" in translate.PROVIDERS


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = translate.nonsense
