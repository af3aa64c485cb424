"""Which proxy a server is reached by, from the variables that httpx and curl read: ``HTTPS_PROXY``, ``NO_PROXY``..."""

from __future__ import annotations

import ipaddress
from urllib.request import getproxies


def proxy_for(scheme: str, host: str, port: int | None) -> str | None:
    """The URL of the proxy for a server; None for none. The environment is read at each call.

    Args:
        scheme: ``http`` or ``https``.
        host: its name or address, without brackets.
        port: as the URL has it; None for the usual one.
    """
    found = getproxies()
    proxy = found.get(scheme) or found.get("all")
    if not proxy:
        return None
    if any(_passes(entry.strip().lower(), host.lower(), port) for entry in found.get("no", "").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _passes(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of ``NO_PROXY`` says that a host is reached without one.

    As httpx reads them: ``example.com`` is this host and all below it, ``.example.com`` those below it alone.
    """
    if not entry:
        return False
    if entry == "*":
        return True
    entry = entry.rpartition("://")[2]
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and ":" not in name:
        if int(number) != port:
            return False
        entry = name
    entry = entry.removeprefix("*")
    if entry == "localhost":
        return host == entry
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")
