"""Made-up secrets, written in two parts so that scanners of repositories don't take them for real."""

KEY = "sk-" + "proj-abcDEF123456789012345678"
TOKEN = "ghp_" + "a1B2" * 9
