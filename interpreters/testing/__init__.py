"""For tests of programs that use cogstep: fakes, cassettes, contracts, and a pytest plugin."""
