"""Test support for programs that use cogstep: fakes, cassettes, contracts, and a pytest plugin."""
