"""The public site without a server: recorded races, the lessons' questions, the claims, as files that open anywhere."""
