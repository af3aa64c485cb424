"""The ``cogstep`` command. It starts in ``main.py``; each subcommand imports its dependencies when it runs."""
