"""The Model Context Protocol (MCP): tools of servers that others wrote for agents of ours, and our tools for others.

``servers`` says as a value how a server is started or reached, ``client`` holds many of them side by side, and
``serving`` is the other direction. The protocol itself is the official SDK's (the extra ``mcp``), which takes seconds
to import: ``link`` and its transports import it, once a server is connected, and ``serving``, once something is served.
"""
