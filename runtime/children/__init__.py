"""Processes of our own: how each is started, and what it gets of the program that starts it.

=================  =====================================================================================
``starting``       the one way to start a child: its module path, its environment, its descriptors
``boot``           what a child does first
``frozen``         the same for programs that are frozen into one file
=================  =====================================================================================
"""
