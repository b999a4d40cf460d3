"""Connections, and the calls that they make."""
