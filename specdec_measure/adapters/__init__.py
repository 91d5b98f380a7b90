"""Records of what other engines did, in our format."""
