"""The Model Context Protocol (MCP): tools of other servers for our agents, and our tools for other programs.

``server_config`` defines how a server is started or reached, ``client`` connects to many of them, and ``service`` is
the other direction. The official SDK (the extra ``mcp``) implements the protocol. It takes seconds to import, so
``_transport_session`` and its transports are imported when a server is connected, and ``service`` imports it when a
service starts.
"""
