"""The power fails while keys are made and revoked: those told of are there, those that were revoked are not."""

from __future__ import annotations

from pathlib import Path

from tests.storage.power.scenarios import Cuts, check_all, record
from tests.storage.power.state import State, state_of
from tests.storage.power.steps import CREATE, Step
from web.keys import KeyFile


def keys_of(kb: Path) -> KeyFile:
    """The keys kept beside a knowledge base."""
    return KeyFile(kb / "api-keys.json")


def state_with_keys(kb: Path) -> State:
    """What there is, and the names of keys."""
    return state_of(kb) | {"keys": tuple(key.name for key in keys_of(kb).all())}


def made(name: str) -> Step:
    """A key is made."""
    return (
        f"make {name}",
        lambda kb: keys_of(kb).create(name, "read"),
        lambda state: state | {"keys": (*state.get("keys", ()), name)},
    )


def revoke_first(kb: Path) -> None:
    """The oldest key is revoked."""
    keys_of(kb).revoke(keys_of(kb).all()[0].id)


def test_a_power_cut_loses_no_key_and_brings_none_back(tmp_path: Path) -> None:
    """At every place, with anything left of what was not synced."""
    revoked: Step = ("revoke", revoke_first, lambda state: state | {"keys": state["keys"][1:]})
    recording = record(tmp_path / "run", [CREATE, made("laptop"), made("worker"), revoked])
    recording.states[1:] = [{"keys": (), **state} for state in recording.states[1:]]
    recording.read = state_with_keys
    assert check_all(recording, tmp_path, Cuts(since=1)) > 5
