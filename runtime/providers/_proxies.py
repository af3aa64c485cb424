"""The proxy for a server, from the variables that httpx and curl read: ``HTTPS_PROXY``, ``NO_PROXY``..."""

from __future__ import annotations

import ipaddress
from urllib.request import getproxies


def proxy_for(scheme: str, host: str, port: int | None) -> str | None:
    """Return the URL of the proxy for a server, or None. Reads the environment at each call.

    Args:
        scheme: ``http`` or ``https``.
        host: its name or address, without brackets.
        port: as in the URL; None for the default.
    """
    found = getproxies()
    proxy = found.get(scheme) or found.get("all")
    if not proxy:
        return None
    if any(_passes(entry.strip().lower(), host.lower(), port) for entry in found.get("no", "").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _passes(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of ``NO_PROXY`` matches a host.

    As in httpx, ``example.com`` means this host and all subdomains, ``.example.com`` only the subdomains.
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
