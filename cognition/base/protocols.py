"""Protocols that look at an object's attributes in the same way on every Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from abc import ABCMeta as ProtocolMeta
else:
    ProtocolMeta = type(Protocol)


class AttributeProtocolMeta(ProtocolMeta):
    """The metaclass of ``runtime_checkable`` protocols for objects that a program may wrap.

    ``isinstance`` takes an object that forwards by ``__getattr__`` as having its attributes. Python does so up to 3.11;
    later versions look at the object's own attributes and those of its class only.
    """

    def __instancecheck__(cls, instance: Any) -> bool:  # noqa: N805 - this is a metaclass
        if super().__instancecheck__(instance):
            return True
        if isinstance(instance, type) or not getattr(cls, "_is_protocol", False):
            return False  # a class has the methods of its instances, and is none; and a class of a protocol is a class
        members = getattr(cls, "__protocol_attrs__", ())  # from 3.12 on
        return bool(members) and all(getattr(instance, name, None) is not None for name in members)
