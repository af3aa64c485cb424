"""What cogstep costs, measured. Each script explains itself with ``--help``; README.md says what was found."""
