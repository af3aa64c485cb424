"""The ``cogstep`` command. ``main.py`` is where it starts; what a subcommand needs is imported when it runs."""
