"""Conversions of Dragoman's values to the types of other libraries."""
