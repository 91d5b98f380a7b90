"""The public site without a server: the live page, recorded races, lessons and claims as files that open anywhere."""
