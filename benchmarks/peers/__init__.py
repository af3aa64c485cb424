"""One module for each library that is measured, cogstep among them, all behind the protocol of ``protocol.py``."""
