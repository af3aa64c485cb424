"""The Model Context Protocol (MCP): tools of other servers for our agents, and our tools for other programs.

``servers`` defines how a server is started or reached, ``client`` connects to many of them, and ``serving`` is the
other direction. The official SDK (the extra ``mcp``) implements the protocol. It takes seconds to import, so ``link``
and its transports import it when a server is connected, and ``serving`` when a service starts.
"""
