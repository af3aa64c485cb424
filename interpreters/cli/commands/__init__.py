"""One module per subcommand of cogstep: its arguments and its work."""
