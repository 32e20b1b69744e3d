"""Damage to a message: one byte changed, some cut off, or some added."""

from __future__ import annotations

from hypothesis import strategies as st


def damaged(message: bytes, data: st.DataObject) -> bytes:
    """Return the message with one damage that is drawn."""
    changed = bytearray(message)
    place = data.draw(st.integers(0, len(changed) - 1))
    what = data.draw(st.sampled_from(["change", "cut", "add"]))
    if what == "change":
        changed[place] = data.draw(st.integers(0, 255))
    elif what == "cut":
        del changed[place:]
    else:
        changed += b"\0" * (place + 1)
    return bytes(changed)
