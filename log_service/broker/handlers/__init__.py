"""One module per API, or per family of APIs: what a request of each version means, and what the response says."""
