"""The conformance kit: scripted peers, honest and hostile, that try another implementation."""
