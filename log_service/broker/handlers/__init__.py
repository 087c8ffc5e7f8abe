"""One module per API: what a request of each version means, and what it is answered with."""
