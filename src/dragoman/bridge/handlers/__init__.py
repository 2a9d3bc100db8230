"""One function for each request of `protocol.requests`, registered by `@handles`."""
